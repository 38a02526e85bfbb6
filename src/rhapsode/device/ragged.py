"""Sequences of different lengths, run together through a network that carries state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.upload import upload


@dataclass(frozen=True)
class LaunchSizes:
    """The sizes a worker's launches are compiled for, ascending: frames per row, and rows."""

    frames: Sequence[int]
    rows: Sequence[int]


@dataclass(frozen=True)
class RaggedRun:
    """One launch: positions `[start, stop)` of some of the sequences."""

    which: list[int]
    start: int
    stop: int
    slots: Tensor
    """The slots of these sequences, padded with the scratch slot."""

    def stack(self, sequences: Sequence[NDArray[Any]] | Sequence[Tensor]) -> Tensor:
        """Returns the positions of this launch, `[rows, stop - start, ...]`; padding rows are zero."""
        pieces = [sequences[i][self.start : self.stop] for i in self.which]
        spare = len(self.slots) - len(pieces)
        if isinstance(pieces[0], Tensor):
            stacked = torch.stack(pieces)  # type: ignore[arg-type]
            return F.pad(stacked, (0, 0) * (stacked.ndim - 1) + (0, spare)) if spare else stacked
        padding = np.zeros((spare, *pieces[0].shape), pieces[0].dtype)
        return upload(np.concatenate([np.stack(pieces), padding]), self.slots.device)


def ragged_runs(
    lengths: Sequence[int], slots: Tensor, scratch: int, most: int, sizes: LaunchSizes | None = None
) -> Iterator[RaggedRun]:
    """Cuts sequences into batched launches, which cover every position once, in order, without padding in a row.

    No launch is longer than `most`. With `sizes`, launches have these sizes where they fit, so that no kernel is
    compiled for them.
    """
    start = 0
    while active := [i for i, length in enumerate(lengths) if length > start]:
        length = min(most, *(lengths[i] - start for i in active))
        if sizes is not None:
            length = max((size for size in sizes.frames if size <= length), default=length)
        together = len(active) if sizes is None else sizes.rows[-1]
        for first in range(0, len(active), together):
            which = active[first : first + together]
            rows = len(which) if sizes is None else next(size for size in sizes.rows if size >= len(which))
            chosen = F.pad(slots[upload(np.array(which), slots.device)], (0, rows - len(which)), value=scratch)
            yield RaggedRun(which, start, start + length, chosen)
        start += length
