"""Batched prefill: runs spans of several prompts as one padded rectangle, on a GPU by replaying captured graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.buckets import prompt_shapes
from rhapsode.device.host_copies import copy_into
from rhapsode.device.packed import Input, PackedReplay
from rhapsode.device.slots import Rows

Spans = Sequence[tuple[int, int, int]]
"""Rows `[start, stop)` of each prompt, and the position of its first row in the slot."""


class PromptRuns:
    """Runs `function(rows, where [B, T], valid [B, T], *inputs)`, which works in place on slots.

    Padding, of a row or of the batch, is not `valid`.
    """

    def __init__(self, function: Callable[..., None], device: torch.device) -> None:
        self._function = function
        self._device = device
        self._replay: PackedReplay | None = None
        self._shapes: list[tuple[int, int]] = []  # captured shapes, smallest first

    def shape(self, spans: Spans) -> tuple[int, int]:
        """Returns the rows and positions the inputs must have: the smallest captured shape, or the exact one."""
        batch, length = len(spans), max(stop - start for start, stop, _ in spans)
        return next(((b, t) for b, t in self._shapes if b >= batch and t >= length), (batch, length))

    def __call__(self, rows: Rows, spans: Spans, *inputs: Input) -> None:
        batch, length = self.shape(spans)
        run = self._replay or self._on(rows)
        run(_padded_slots(rows, batch), *_places(spans, batch, length), *inputs)

    def run(
        self,
        prompts: Sequence[Any],
        spans: Spans,
        rows: Rows,
        inputs: Callable[[tuple[int, int]], tuple[Input, ...]],
        runs: Spans | None = None,
    ) -> tuple[list[Any], Rows]:
        """Runs a piece of each prompt, from row `start` to `stop` of its span. Returns the prompts whose piece was the
        last one, and their rows of the batch.

        `inputs(shape)` makes the function's inputs for this many rows and positions. `runs` are longer pieces to run
        instead, for a worker that computes a position beyond the prompt; `spans` still decide whether a prompt has
        ended.
        """
        runs = runs or spans
        if any(start < stop for start, stop, _ in runs):
            self(rows, runs, *inputs(self.shape(runs)))
        ended = [i for i, (prompt, span) in enumerate(zip(prompts, spans, strict=True)) if span[1] == prompt.length]
        return [prompts[i] for i in ended], rows if len(ended) == len(prompts) else rows.some(ended)

    def capture(self, rows: Rows, most_positions: int, blank: Callable[[int, int], tuple[Input, ...]]) -> None:
        """Captures every shape the engine launches; `blank(batch, length)` makes the inputs of one.

        Inputs that `blank` makes as arrays reach the device in one copy for all of them.
        """
        self._replay = self._on(rows)
        shapes = prompt_shapes(most_positions)
        for batch, length in reversed(shapes):
            self._replay.capture(
                np.repeat(rows.host_slots, batch),
                np.zeros((batch, length), np.int64),
                np.zeros((batch, length), np.bool_),
                *blank(batch, length),
            )
        self._shapes = shapes

    def _on(self, rows: Rows) -> PackedReplay:
        tables = rows.table, rows.kv, rows.state

        def run(slots: Tensor, where: Tensor, valid: Tensor, *inputs: Tensor) -> None:
            self._function(Rows(slots, *tables), where, valid, *inputs)

        return PackedReplay(run, self._device)


def _padded_slots(rows: Rows, batch: int) -> Input:
    if rows.on_host:
        return np.concatenate([rows.host_slots, np.full(batch - len(rows.host_slots), rows.scratch)])
    return F.pad(rows.slots, (0, batch - len(rows.slots)), value=rows.scratch)


def _places(spans: Spans, batch: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns, for every cell of the rectangle `[batch, length]`, its position in the slot, and whether it holds a part
    of a prompt or is padding.

    Works row by row, because numpy releases Python's lock for arrays of more than 500 numbers.
    """
    where, valid = np.empty((batch, length), np.int64), np.empty((batch, length), np.bool_)
    where[len(spans) :], valid[len(spans) :] = 0, False
    steps = np.arange(length)
    for i, (start, stop, base) in enumerate(spans):
        np.minimum(steps + (base + start), base + max(start, stop - 1), out=where[i])
        np.less(steps, stop - start, out=valid[i])
    return where, valid


def content_of(prompts: Sequence[Any], spans: Spans, shape: tuple[int, int], blank: NDArray[Any]) -> NDArray[Any]:
    """Returns the content of these spans, `[rows, positions, columns]`. Positions of padding hold `blank`."""
    content = np.empty((*shape, len(blank)), blank.dtype)
    content[len(prompts) :] = blank
    for row, prompt, (start, stop, _) in zip(content, prompts, spans, strict=False):  # further rows are padding
        copy_into(row[: stop - start], prompt.content[start:stop])
        row[stop - start :] = blank
    return content
