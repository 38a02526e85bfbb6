"""The one way device work is launched: eagerly, or as a CUDA graph captured once per batch bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.engine.transfer import upload

Statics = tuple[int, ...]


def batch_buckets(most: int) -> list[int]:
    """1, 2, 4, 8, then steps that waste at most a quarter of a launch."""
    sizes, size = [], 1
    while size < most:
        sizes.append(size)
        size = size * 2 if size < 8 else size + max(8, size // 4 // 8 * 8)
    return [*sizes, most]


@dataclass
class _Captured:
    """A recorded launch, its buffers, and the slots that are in them."""

    graph: torch.cuda.CUDAGraph
    inputs: Tensor
    output: Tensor
    slots: NDArray[np.int64]


class Launcher:
    """Runs `function(slots, *statics)`, which works in place on slot-indexed buffers and returns one tensor.

    Eager is the reference and the fallback. Captured sizes are replayed; a batch between two sizes is padded with the
    scratch slot, whose rows nobody reads.
    """

    def __init__(self, function: Callable[..., Tensor], scratch_slot: int, device: torch.device) -> None:
        self._function = function
        self._scratch = scratch_slot
        self._device = device
        self._graphs: dict[tuple[int, Statics], _Captured] = {}
        self._buckets: dict[Statics, list[int]] = {}
        self._pool: Any = None

    def __call__(self, slots: NDArray[np.int64], *statics: int) -> Tensor:
        bucket = next((b for b in self._buckets.get(statics, ()) if b >= len(slots)), None)
        if bucket is None:
            return self._function(upload(slots, self._device), *statics)
        captured = self._graphs[bucket, statics]
        if not np.array_equal(captured.slots, slots):  # most launches are for the same rows as the one before
            captured.slots = slots
            padding = np.full(bucket - len(slots), self._scratch)
            captured.inputs.copy_(upload(np.concatenate([slots, padding]), self._device))
        captured.graph.replay()
        return captured.output[: len(slots)]

    def capture(self, buckets: Iterable[int], *statics: int) -> None:
        """Record these batch sizes, largest first so that the smaller ones share its memory."""
        if self._device.type != "cuda":
            return
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        for bucket in sorted(buckets, reverse=True):
            inputs = torch.full((bucket,), self._scratch, dtype=torch.int64, device=self._device)
            self._function(inputs, *statics)  # once, so that everything lazy has happened
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                output = self._function(inputs, *statics)
            self._graphs[bucket, statics] = _Captured(graph, inputs, output, np.full(bucket, -1))
            self._buckets.setdefault(statics, []).insert(0, bucket)
