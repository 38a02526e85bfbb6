"""Launches a function on a batch of slots: eagerly, or by a replay of the captured launch of the next larger batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device import compile_only
from rhapsode.device.buckets import batch_sizes
from rhapsode.device.landing import Landing
from rhapsode.device.replay import Recording, Replay
from rhapsode.device.trace import Untraceable
from rhapsode.device.upload import fill, upload

Statics = tuple[int, ...]
MOST_TRACED = 4
"""On a CPU, batch sizes 1 and this one are traced. A trace costs a third of a second at start; others gain little."""

LONG_S = 0.25
"""A launch that takes longer than this on a CPU is bound by arithmetic, and gains nothing from a trace."""

log = logging.getLogger("rhapsode.engine")


class Launcher:
    """Runs `function(inputs, *statics)`, which works in place on slot-indexed buffers and returns one tensor.

    `inputs [B, k]` has a row of numbers per request, the slot first. A batch between two captured sizes is padded with
    the scratch slot, whose results are not read. With `fixed`, every batch is padded to that size, so that a row's
    result does not depend on the other rows.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        scratch_slot: int,
        device: torch.device,
        fixed: int | None = None,
        columns: int = 1,
    ) -> None:
        self._function = function
        self._device = device
        self._fixed = fixed
        self._padding = np.zeros((1, columns), np.int64)
        self._padding[0, 0] = scratch_slot
        self._graphs: dict[Statics, list[tuple[int, Recording]]] = {}  # by batch size, smallest first
        self._uploaded: dict[int, NDArray[np.int64]] = {}  # what each graph's input holds now

    def __call__(self, inputs: NDArray[np.int64], *statics: int) -> Tensor:
        fitting = (entry for entry in self._graphs.get(statics, ()) if entry[0] >= len(inputs))
        bucket, captured = next(fitting, (0, None))
        if captured is None:
            padded = inputs if self._fixed is None else self._pad(inputs, self._fixed)
            return self._function(upload(padded, self._device), *statics)[: len(inputs)]
        if not np.array_equal(self._uploaded.get(id(captured), ()), inputs):  # most launches repeat the last one's rows
            self._uploaded[id(captured)] = inputs
            fill(captured.inputs[0], self._pad(inputs, bucket))
        output = captured.replay()
        assert output is not None
        return output[: len(inputs)]

    def capture(self, most: int, *statics: int, buffers: Sequence[Tensor] = ()) -> None:
        """Captures batch sizes up to `most`, largest first so that the smaller ones share its memory.

        `buffers` are all tensors that change between launches: a trace on a CPU has to know them.
        """
        replay = Replay(lambda inputs: self._function(inputs, *statics), buffers)
        on_cpu = self._device.type == "cpu"
        if on_cpu and self._is_long(statics):
            return
        sizes = {1, min(most, MOST_TRACED)} if on_cpu else batch_sizes(most)
        for bucket in sorted(sizes if self._fixed is None else [self._fixed], reverse=True):
            try:
                recording = replay.capture(self._blank(bucket))
            except Untraceable as error:
                log.info("launches run eagerly: %s", error)
                return
            self._graphs.setdefault(statics, []).insert(0, (bucket, recording))

    def reserve_landings(self, count: int) -> None:
        """Allocates the pinned memory for `count` results of each launch in advance, because allocating it is slow."""
        for _, captured in (entry for graphs in self._graphs.values() for entry in graphs):
            if not compile_only.active() and (output := captured.replay()) is not None:
                for landing in [Landing(output) for _ in range(count)]:
                    landing.end()

    def _blank(self, rows: int) -> Tensor:
        return upload(np.repeat(self._padding, rows, axis=0), self._device)

    def _is_long(self, statics: Statics) -> bool:
        """Returns whether a launch of one row takes long. A long one is measured twice: the first may do imports."""
        return self._eager_s(statics) > LONG_S and self._eager_s(statics) > LONG_S

    def _eager_s(self, statics: Statics) -> float:
        """Returns the CPU seconds that one eager launch costs this thread."""
        started_s = time.thread_time()
        self._function(self._blank(1), *statics)
        return time.thread_time() - started_s

    def _pad(self, inputs: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        return np.concatenate([inputs, np.repeat(self._padding, size - len(inputs), axis=0)])
