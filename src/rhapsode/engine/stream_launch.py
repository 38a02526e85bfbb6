"""What a launch of a streaming stage does on the device. On a GPU, this is what is captured."""

from __future__ import annotations

from torch import Tensor

from rhapsode.device.memory import SlotMemory
from rhapsode.device.sections import section
from rhapsode.device.stream import FrameStream
from rhapsode.engine.sink import Sink
from rhapsode.models.base import StreamWorker


class StreamLaunch:
    """Reads frames from the source, runs the worker, and passes its output to the sink."""

    def __init__(
        self, worker: StreamWorker, source: FrameStream, sink: Sink, memory: SlotMemory, positions_per_frame: int
    ) -> None:
        self._worker, self._source, self._sink, self._memory = worker, source, sink, memory
        self._positions_per_frame = positions_per_frame

    def __call__(self, inputs: Tensor, *statics: int) -> Tensor:
        """Works on `due` frames of each row; `statics` are `due` and the look-ahead that the worker has seen."""
        slots, (due, seen) = inputs[:, 0], statics
        there, plain = self._source.device, self._worker.reach.plain
        window = self._source.window(slots.to(there), due, None if plain else inputs[:, 1:4].to(there), seen)
        with section("codec"):
            output: Tensor = self._worker.decode(window.to(slots.device), self._memory.rows(slots), self._memory.state)
        skip, counts, heard = (None, None, None) if plain else (inputs[:, 1], inputs[:, 2], inputs[:, 4])
        values = self._sink.on_device(slots, output, skip, heard)
        moved: Tensor | int = due if counts is None else counts
        self._source.advance(slots.to(there), moved if isinstance(moved, int) else moved.to(there))
        self._memory.table.advance(slots, moved, self._positions_per_frame)
        return values
