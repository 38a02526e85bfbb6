"""The edge that carries frames: a ring per slot on the device, counters on the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.state import buffer
from rhapsode.device.upload import upload


class FrameStream:
    """Frames on their way from a talker to a codec. The producer puts, the consumer takes; no row is copied twice."""

    def __init__(
        self, slots: int, capacity: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> None:
        self.capacity = capacity
        self.device = device
        # The two ends may run in different loops: each is woken by what the other does.
        self.on_written: Callable[[], None] = lambda: None
        self.on_taken: Callable[[], None] = lambda: None
        self._ring = buffer(slots, capacity, *shape, dtype=dtype, device=device)
        self._head = buffer(slots, dtype=torch.int64, device=device)
        self._tail = buffer(slots, dtype=torch.int64, device=device)
        self.promised = np.zeros(slots + 1, np.int64)  # launched, perhaps not all of them emitted
        self.written = np.zeros(slots + 1, np.int64)
        self.taken = np.zeros(slots + 1, np.int64)
        self.freed = np.zeros(slots + 1, np.int64)  # taken, and no longer being read
        self.ended = np.zeros(slots + 1, np.bool_)

    def tensors(self) -> tuple[Tensor, ...]:
        """All that changes from frame to frame."""
        return self._ring, self._head, self._tail

    def open(self, slots: Tensor, known: NDArray[np.int64]) -> None:
        """The producer's side: new requests own these slots."""
        for counter in (self.promised, self.written, self.taken, self.freed, self.ended):
            counter[known] = 0
        self._head.index_fill_(0, slots, 0)

    def resume(self, slots: Tensor, known: NDArray[np.int64]) -> None:
        """The producer's side: the same requests go on; what was under way when they paused is not heard."""
        self.promised[known] = self.written[known]
        self._head[slots] = upload(self.written[known], self.device)

    def rewind(self, slots: Tensor) -> None:
        """The consumer's side, on its own stream: what these slots will be sent starts at the beginning."""
        self._tail.index_fill_(0, slots, 0)

    def put(self, slots: Tensor, frames: Tensor, emitted: Tensor) -> None:
        """Device side, part of the step: store what was emitted. A frame that was not is overwritten next time."""
        head = self._head[slots]
        self._ring[slots, head % self.capacity] = frames.to(self._ring.dtype)
        self._head[slots] = head + emitted

    def peek(self, slots: Tensor, frames: int) -> Tensor:
        """Device side: the next `[B, frames, ...]`."""
        index = (self._tail[slots][:, None] + torch.arange(frames, device=slots.device)) % self.capacity
        return self._ring[slots[:, None], index]

    def take(self, slots: Tensor, frames: int) -> None:
        """Device side: so many of them are used up."""
        self._tail[slots] += frames

    @property
    def has_room(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return self.promised - self.freed < self.capacity
