"""What a launch of a talker does on the device. With graphs, this is what is captured."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rhapsode.device.memory import SlotMemory
from rhapsode.device.sections import section
from rhapsode.device.stream import FrameStream
from rhapsode.models.base import Step, Talker, traits_of

EMITTED, STOPPED = 1, 2  # bits of a row's result: it made a frame, and it has ended
FIRST = (1,)
"""The static argument of a launch that makes first frames of rows whose first pass ran with their prompt."""


class FrameLaunch:
    """Makes the next frame of each row, and puts it into the streams."""

    def __init__(self, talker: Talker, streams: Sequence[FrameStream], memory: SlotMemory, endless: bool) -> None:
        self._talker, self._first_step = talker, traits_of(talker).first_step
        self._streams, self._memory, self._endless = streams, memory, endless

    def __call__(self, inputs: Tensor, *statics: int) -> Tensor:
        """Returns what the host learns of each row: `EMITTED` and `STOPPED`."""
        slots = inputs[:, 0]
        with section("talker"):
            make = self._first_step if statics else self._talker.step
            assert make is not None
            step: Step = make(self._memory.rows(slots), self._memory.state)
        emitted, stopped = step.emitted, step.stopped
        if self._endless:
            emitted, stopped = emitted | stopped, torch.zeros_like(stopped)
        for stream in self._streams:
            stream.put(slots, step.frames, emitted)
        self._memory.table.advance(slots)
        return torch.add(emitted.to(torch.uint8), stopped, alpha=STOPPED)  # true is 1, which is EMITTED

    def start(self, entries: Tensor) -> None:
        """Writes where rows start: `entries [B, 3 + streams]` are slots, positions, steps and the heads of rings."""
        slots, positions, steps, *heads = entries.unbind(1)
        self._memory.table.write_counters(slots, positions, steps)
        for stream, head in zip(self._streams, heads, strict=True):
            stream.write_heads(slots, head)
