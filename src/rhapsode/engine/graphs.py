"""How a stage launches its work on a batch of slots: eagerly, or replayed from a graph per batch bucket."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.nn.replay import Recording, Replay
from rhapsode.nn.trace import Untraceable
from rhapsode.nn.upload import upload

Statics = tuple[int, ...]
MOST_TRACED = 4
"""Rows of the largest batch recorded on a CPU: each takes a fifth of a second of every start."""

log = logging.getLogger("rhapsode.engine")


def batch_buckets(most: int) -> list[int]:
    """1, 2, 4, 8, then steps that waste at most a quarter of a launch."""
    sizes, size = [], 1
    while size < most:
        sizes.append(size)
        size = size * 2 if size < 8 else size + max(8, size // 4 // 8 * 8)
    return [*sizes, most]


class Launcher:
    """Runs `function(slots, *statics)`, which works in place on slot-indexed buffers and returns one tensor.

    A batch between two captured sizes is padded with the scratch slot, whose rows nobody reads. With `fixed`, every
    batch is padded to that size: how a row is computed then depends on nothing but the row.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        scratch_slot: int,
        device: torch.device,
        fixed: int | None = None,
    ) -> None:
        self._function = function
        self._scratch = scratch_slot
        self._device = device
        self._fixed = fixed
        self._graphs: dict[Statics, list[tuple[int, Recording]]] = {}  # by batch size, smallest first
        self._loaded: dict[int, NDArray[np.int64]] = {}  # the slots in each graph's input

    def __call__(self, slots: NDArray[np.int64], *statics: int) -> Tensor:
        fitting = (entry for entry in self._graphs.get(statics, ()) if entry[0] >= len(slots))
        bucket, captured = next(fitting, (0, None))
        if captured is None:
            padded = slots if self._fixed is None else self._pad(slots, self._fixed)
            return self._function(upload(padded, self._device), *statics)[: len(slots)]
        if not np.array_equal(self._loaded.get(id(captured), ()), slots):  # most launches are for the rows of the last
            self._loaded[id(captured)] = slots
            captured.inputs[0].copy_(upload(self._pad(slots, bucket), self._device))
        output = captured.replay()
        assert output is not None
        return output[: len(slots)]

    def capture(self, most: int, *statics: int, buffers: Sequence[Tensor] = ()) -> None:
        """Record batch sizes up to `most`, largest first so that the smaller ones share its memory.

        On a CPU only a few rows are bound by the number of operators; `buffers` are all that changes between launches.
        """
        replay = Replay(lambda slots: self._function(slots, *statics), buffers)
        buckets = batch_buckets(most) if self._fixed is None else [self._fixed]
        if self._device.type == "cpu":
            buckets = [bucket for bucket in buckets if bucket <= MOST_TRACED]
        for bucket in sorted(buckets, reverse=True):
            slots = torch.full((bucket,), self._scratch, dtype=torch.int64, device=self._device)
            try:
                recording = replay.capture(slots)
            except Untraceable as error:
                log.info("launches run eagerly: %s", error)
                return
            self._graphs.setdefault(statics, []).insert(0, (bucket, recording))

    def _pad(self, slots: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        return np.concatenate([slots, np.full(size - len(slots), self._scratch)])
