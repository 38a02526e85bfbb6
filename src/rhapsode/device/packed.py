"""Launches whose inputs come from the host: one copy brings all of them to the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device import host_blocks
from rhapsode.device.host_copies import as_bytes
from rhapsode.device.replay import Recording, Replay
from rhapsode.device.upload import fill, torch_type

ALIGNMENT = 16
"""Bytes: kernels read aligned numbers, whatever their type."""

Input = NDArray[Any] | Tensor


@dataclass(frozen=True)
class PackedArray:
    """Where an array lies in a block of bytes."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def stop(self) -> int:
        return self.start + self.dtype.itemsize * int(np.prod(self.shape))

    def view(self, block: Tensor) -> Tensor:
        return block[self.start : self.stop].view(torch_type(self.dtype)).view(self.shape)


class Packing:
    """The layout of several arrays in one block of bytes."""

    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None:
        self.places: list[PackedArray] = []
        end = 0
        for array in arrays:
            self.places.append(PackedArray(-(-end // ALIGNMENT) * ALIGNMENT, array.shape, array.dtype))
            end = self.places[-1].stop
        self.nbytes = end

    def blank(self, device: torch.device) -> Tensor:
        """Returns an uninitialised block on the device."""
        return torch.empty(self.nbytes, dtype=torch.uint8, device=device)

    def fill(self, block: Tensor, arrays: Sequence[NDArray[Any] | None]) -> None:
        """Copies these arrays into a block, in one copy. The bytes in the place of a `None` are undefined."""
        if not block.is_cuda:
            self._pack(block.numpy().data, arrays)
            return
        host_blocks.send(block, lambda held: self._pack(held, arrays))

    def _pack(self, target: memoryview, arrays: Sequence[NDArray[Any] | None]) -> None:
        for place, array in zip(self.places, arrays, strict=True):
            if array is not None:
                target[place.start : place.stop] = as_bytes(np.asarray(array, place.dtype))

    def views(self, block: Tensor) -> list[Tensor]:
        """Returns the arrays of a block as tensors, without a copy."""
        return [place.view(block) for place in self.places]


@dataclass(frozen=True)
class Captured:
    """A captured launch with the memory it reads from: all inputs that come from the host lie in one block on the
    device, one after the other, so that one copy brings them there."""

    recording: Recording
    packing: Packing
    block: Tensor
    is_packed: Sequence[bool]

    def run(self, inputs: Sequence[Input]) -> Tensor | None:
        packed = [x for x, is_packed in zip(inputs, self.is_packed, strict=True) if is_packed]
        self.packing.fill(self.block, [x if isinstance(x, np.ndarray) else None for x in packed])
        for static, x, is_packed in zip(self.recording.inputs, inputs, self.is_packed, strict=True):
            if isinstance(x, Tensor):
                static.copy_(x, non_blocking=True)
            elif not is_packed:
                fill(static, x)
        return self.recording.replay()


class PackedReplay:
    """Runs `function(*tensors)` like a `Replay`, but takes arrays, too: one copy brings all of them to the device.

    With a copy for each array there would be more launches, and every call of torch releases Python's lock.
    """

    def __init__(self, function: Callable[..., Tensor | None], device: torch.device) -> None:
        self._function = function
        self._device = device
        self._replay = Replay(function)
        self._captured: dict[tuple[tuple[int, ...], ...], Captured] = {}

    def capture(self, *inputs: Input) -> None:
        """Captures a launch of these shapes. Inputs that are tensors here are copied one by one in every replay."""
        is_packed = [isinstance(x, np.ndarray) for x in inputs]
        arrays = [x for x in inputs if isinstance(x, np.ndarray)]
        packing = Packing(arrays)
        block = packing.blank(self._device)
        packing.fill(block, arrays)
        views = iter(packing.views(block))
        recording = self._replay.capture(*(x if isinstance(x, Tensor) else next(views) for x in inputs))
        self._captured[_shapes(inputs)] = Captured(recording, packing, block, is_packed)

    def __call__(self, *inputs: Input) -> Tensor | None:
        captured = self._captured.get(_shapes(inputs))
        if captured is not None:
            return captured.run(inputs)
        arrays = [x for x in inputs if isinstance(x, np.ndarray)]
        views = iter(upload_all(arrays, self._device))
        return self._function(*(x if isinstance(x, Tensor) else next(views) for x in inputs))


def upload_all(arrays: Sequence[NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Copies several arrays to the device in one copy."""
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    packing = Packing(arrays)
    block = packing.blank(device)
    packing.fill(block, arrays)
    return packing.views(block)


def _shapes(inputs: Sequence[Input]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(x.shape) for x in inputs)
