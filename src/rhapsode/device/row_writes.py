"""Writes what new requests bring from the host into the rows of slot-indexed buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rhapsode.device.packed import PackedReplay

SIZES = (1, 8, 64)
"""The numbers of rows that launches are captured for. Fewer rows are padded, more take several launches."""


class RowWrites:
    """Runs `function(target, *columns)`, which writes columns `[B, ...]` to the rows of `target`'s buffers.

    On a GPU that is one copy and one captured launch, however many buffers there are. Launches that were not captured
    run eagerly: those for another target, and columns of other shapes than the captured ones.
    """

    def __init__(self, function: Callable[..., None], device: torch.device) -> None:
        self._function = function
        self._device = device
        self._target: Any = None
        self._blank: tuple[NDArray[Any], ...] = ()
        self._replay: PackedReplay | None = None

    def capture(self, target: Any, *blank: NDArray[Any]) -> None:
        """Captures launches for this target, on a GPU. `blank` is the padding row, `[1, ...]`, for the scratch slot.

        The first launch also runs eagerly, so that the kernels of launches that are not captured are loaded, too.
        """
        self._target, self._blank = target, blank
        self._replay = PackedReplay(lambda *columns: self._function(target, *columns), self._device)
        for size in reversed(SIZES):
            self._replay.capture(*(np.repeat(column, size, axis=0) for column in blank))

    def __call__(self, target: Any, *columns: NDArray[Any]) -> None:
        shapes = [column.shape[1:] for column in columns]
        if self._replay is None or target is not self._target or shapes != [x.shape[1:] for x in self._blank]:
            PackedReplay(lambda *tensors: self._function(target, *tensors), self._device)(*columns)
            return
        for start in range(0, len(columns[0]), SIZES[-1]):
            self._replay(*self._padded([column[start : start + SIZES[-1]] for column in columns]))

    def _padded(self, columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
        rows = len(columns[0])
        lacking = next(size for size in SIZES if size >= rows) - rows
        if not lacking:
            return columns
        filling = (np.repeat(column, lacking, axis=0) for column in self._blank)
        return [np.concatenate(pair) for pair in zip(columns, filling, strict=True)]
