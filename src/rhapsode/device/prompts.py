"""Chunks of prompts run together: one rectangle, each row filled up to the longest; on a GPU, replayed from graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.buckets import prompt_shapes
from rhapsode.device.replay import Replay
from rhapsode.device.slots import Rows
from rhapsode.device.upload import upload

Spans = Sequence[tuple[int, int, int]]
"""Rows `[start, stop)` of each prompt, and the position of its first row in the slot."""


class PromptRuns:
    """Runs `function(rows, where [B, T], valid [B, T], *inputs)`, which works in place on slots.

    Tokens that only fill up a row, or rows that only fill up a batch, are not `valid`.
    """

    def __init__(self, function: Callable[..., None], device: torch.device) -> None:
        self._function = function
        self._device = device
        self._replay: Replay | None = None
        self._shapes: list[tuple[int, int]] = []  # captured ones, smallest first

    def shape(self, spans: Spans) -> tuple[int, int]:
        """Rows and positions the inputs must have: the smallest captured shape that holds them, or they themselves."""
        batch, length = len(spans), max(stop - start for start, stop, _ in spans)
        return next(((b, t) for b, t in self._shapes if b >= batch and t >= length), (batch, length))

    def __call__(self, rows: Rows, spans: Spans, *inputs: NDArray[Any] | Tensor) -> None:
        batch, length = self.shape(spans)
        where = np.zeros((batch, length), np.int64)
        valid = np.zeros((batch, length), np.bool_)
        for i, (start, stop, base) in enumerate(spans):
            where[i] = base + np.minimum(np.arange(start, start + length), max(start, stop - 1))
            valid[i, : stop - start] = True
        slots = F.pad(rows.slots, (0, batch - len(spans)), value=rows.table.pages.shape[0] - 1)
        run = self._replay or self._on(rows)
        given = (upload(x, self._device) if isinstance(x, np.ndarray) else x for x in (where, valid, *inputs))
        run(slots, *given)

    def prefill(
        self,
        prompts: Sequence[Any],
        spans: Spans,
        rows: Rows,
        inputs: Callable[[tuple[int, int]], tuple[NDArray[Any] | Tensor, ...]],
        ready: Callable[[Sequence[Any], Tensor], None],
    ) -> None:
        """What a worker's `prefill` does: runs the spans, then makes those slots ready whose prompts have ended.

        `inputs(shape)` makes the function's inputs for this many rows and positions.
        """
        if any(start < stop for start, stop, _ in spans):
            self(rows, spans, *inputs(self.shape(spans)))
        ended = [i for i, (prompt, span) in enumerate(zip(prompts, spans, strict=True)) if span[1] == prompt.length]
        if ended:
            ready([prompts[i] for i in ended], rows.slots[upload(np.array(ended), self._device)])

    def capture(self, rows: Rows, most_positions: int, blank: Callable[[int, int], tuple[Tensor, ...]]) -> None:
        """Captures every shape the engine launches; `blank(batch, length)` makes inputs of one."""
        self._replay = self._on(rows)
        shapes = prompt_shapes(most_positions)
        for batch, length in reversed(shapes):
            self._replay.capture(
                rows.slots.repeat(batch),
                torch.zeros(batch, length, dtype=torch.int64, device=self._device),
                torch.zeros(batch, length, dtype=torch.bool, device=self._device),
                *blank(batch, length),
            )
        self._shapes = shapes

    def _on(self, rows: Rows) -> Replay:
        table, kv = rows.table, rows.kv

        def run(slots: Tensor, where: Tensor, valid: Tensor, *inputs: Tensor) -> None:
            self._function(Rows(slots, table, kv), where, valid, *inputs)

        return Replay(run)


def content_of(prompts: Sequence[Any], spans: Spans, shape: tuple[int, int], blank: NDArray[Any]) -> NDArray[Any]:
    """The content of these spans, `[rows, positions, columns]`, filled up with `blank` columns."""
    content = np.tile(blank, (*shape, 1))
    for i, (prompt, (start, stop, _)) in enumerate(zip(prompts, spans, strict=True)):
        content[i, : stop - start] = prompt.content[start:stop]
    return content
