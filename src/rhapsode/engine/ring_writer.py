"""Puts the frames that a burst has made into the streams of the next stages, as far as these have room."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rhapsode.device.cuda_calls import CudaEvent
from rhapsode.device.landing import LANDING_S
from rhapsode.device.packed import upload_all
from rhapsode.device.stream import FrameStream
from rhapsode.engine.clock import Ints
from rhapsode.engine.row import BurstRow


@dataclass
class RingWrite:
    """Frames on their way into the rings."""

    row: BurstRow
    count: int
    written: CudaEvent | None
    """The point of the device's work at which they are there; `None`: they are."""
    is_void: bool = False
    """The request has left, so the stream may have a new owner."""


class RingWriter:
    """Writes to the rings of a slot. On a GPU, later stages are told of frames once these have been written."""

    def __init__(self, streams: Sequence[FrameStream], device: torch.device) -> None:
        self._streams, self._device = streams, device
        self._writes: deque[RingWrite] = deque()

    @property
    def poll_s(self) -> float | None:
        return LANDING_S if self._writes else None

    def open(self, slot: int) -> None:
        """Starts empty streams for the new owner of a slot."""
        for stream in self._streams:
            stream.open(np.array([slot]))

    def unread(self, slots: Ints) -> Ints:
        """Returns, for each of these slots, how many frames the next stage has not worked on yet."""
        stream = self._streams[0]
        return np.array([stream.written(slot) for slot in slots.tolist()], np.int64) - stream.consumed(slots)

    def room(self) -> Ints:
        """Returns, for each slot, how many frames all of its rings can take."""
        room: Ints = np.minimum.reduce([stream.room() for stream in self._streams])
        return room

    def send(self, row: BurstRow, room: int) -> int:
        """Puts the next frames of a row into the rings, at most `room`; returns how many."""
        count = min(room, row.heard - row.sent)
        if row.frames is None or count <= 0:
            return 0
        slots, counts = np.array([row.slot]), np.array([count])
        on_device, numbers = upload_all((slots, counts), self._device)
        for stream in self._streams:
            stream.promise(slots, count)
            stream.put_run(on_device, row.frames[None, :count], torch.zeros_like(numbers), numbers)
        self._keep_rest(row, count)
        self._writes.append(RingWrite(row, count, self._here()))
        self.commit()
        return count

    def commit(self) -> bool:
        """Tells the next stages of all frames that have been written by now; returns whether there were any."""
        committed = False
        while self._writes and ((event := self._writes[0].written) is None or event.is_past()):
            write = self._writes.popleft()
            if not write.is_void:
                write.row.arriving -= write.count
                for stream in self._streams:
                    stream.commit(np.array([write.row.slot]), write.count, np.array([write.count]))
                committed = True
        return committed

    def forget(self, slot: int) -> None:
        """Called when the request of a slot leaves: nobody is told of frames that are still on their way."""
        for write in self._writes:
            write.is_void |= write.row.slot == slot

    def _keep_rest(self, row: BurstRow, count: int) -> None:
        """Notes that frames were sent. The rest is copied at first: a slow listener must not keep the whole batch."""
        assert row.frames is not None
        rest = row.frames[count:]
        is_first = row.sent == 0
        row.sent += count
        row.arriving += count
        if row.sent >= row.heard:
            row.frames = None
        else:
            row.frames = rest.clone() if is_first else rest

    def _here(self) -> CudaEvent | None:
        """Returns this point of the device's work."""
        if self._device.type != "cuda":
            return None
        event = CudaEvent(self._device)
        event.record()
        return event
