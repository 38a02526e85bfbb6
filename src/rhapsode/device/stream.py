"""The edge between two stages: frames in a ring per slot on the device, counted on the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.cuda_calls import CudaEvent
from rhapsode.device.marks import Mark, Marks
from rhapsode.device.packed import upload_all
from rhapsode.device.reach import Reach, Window
from rhapsode.device.state import buffer
from rhapsode.device.upload import upload

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class FrameStream:
    """Frames on their way from one stage to the next. No frame is copied twice.

    The producer calls `open`, `promise`, `put`, `commit`, `mark` and `end`; the consumer `available`, `wait_on_device`,
    `window`, `consume`, `pass_mark` and `release`. Each side changes only its own counters, so that the two may run in
    different threads.
    """

    def __init__(
        self,
        slots: int,
        capacity: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device,
        reach: Reach,
        *,
        on_written: Callable[[], None],
        on_released: Callable[[], None],
        lead: int = 0,
    ) -> None:
        """`on_written` wakes the consumer when frames have arrived, `on_released` the producer when there is room.

        `lead`: how many frames the producer may write before the consumer has read any or asks for more; 0: any number.
        """
        self.capacity, self.lead = capacity, lead
        self.device = device
        self._on_written, self._on_released = on_written, on_released
        self.changes = 0
        """Counts changes on the host, by either side, that the decisions of the other side depend on."""
        self._ahead: CudaEvent | None = None
        self._reach = reach
        self._scratch = slots
        self._ring = buffer(slots, capacity, *shape, dtype=dtype, device=device)
        self._head = buffer(slots, dtype=torch.int64, device=device)  # frames put
        self._tail = buffer(slots, dtype=torch.int64, device=device)  # frames consumed
        self._start = buffer(slots, dtype=torch.int64, device=device)  # the first frame of the segment
        self._promised = np.zeros(slots + 1, np.int64)  # launched; not all of them may be emitted
        self._written = np.zeros(slots + 1, np.int64)
        self._consumed = np.zeros(slots + 1, np.int64)
        self._released = np.zeros(slots + 1, np.int64)  # consumed, and no launch reads them any more
        self._ended = np.zeros(slots + 1, np.bool_)
        self._led = np.zeros(slots + 1, np.bool_)  # not limited by `lead` any more
        self._marks = Marks(slots)

    def tensors(self) -> tuple[Tensor, ...]:
        """Returns the buffers that change from launch to launch."""
        return self._ring, self._head, self._tail, self._start

    # --- the producer's side ---

    def open(self, slots: Ints) -> None:
        """Starts an empty stream for new owners of these slots."""
        heads = self.started(slots, np.zeros(len(slots), np.bool_))
        self.write_heads(*upload_all((slots, heads), self.device))

    def started(self, slots: Ints, go_on: Bools) -> Ints:
        """Resets the counters on the host for new streams. Returns how many frames were written to each slot's
        stream: the caller passes that to `write_heads`, which resets the device's side. `open` does both.

        Slots that `go_on` after a pause keep their stream: frames launched but not committed before it are forgotten.
        """
        new, paused = slots[~go_on], slots[go_on]
        for counter in (self._promised, self._written, self._consumed, self._released, self._ended, self._led):
            counter[new] = 0
        self._marks.clear(new)
        self._promised[paused] = self._written[paused]
        self.changes += 1
        return self._written[slots]

    def write_heads(self, slots: Tensor, heads: Tensor) -> None:
        """On the device: sets where the next frames of these slots go."""
        self._head[slots] = heads

    def room(self) -> Ints:
        """Returns how many more frames each slot's ring can take."""
        room: Ints = self.capacity - self._promised + np.maximum(self._released - self._reach.lookbehind, 0)
        if not self.lead:
            return room
        return np.where(self._led | (self._released > 0), room, np.minimum(room, self.lead - self._promised))

    def promise(self, slots: Ints, frames: Ints | int = 1) -> None:
        """Notes that a launch which will commit at most this many frames of each slot has started."""
        self._promised[slots] += frames

    def put(self, slots: Tensor, frames: Tensor, emitted: Tensor) -> None:
        """On the device: stores a frame per row, `[B, *shape]`. One that is not `emitted` is overwritten next time."""
        head = self._head[slots]
        self._ring[slots, head % self.capacity] = frames.to(self._ring.dtype)
        self._head[slots] = head + emitted

    def put_run(self, slots: Tensor, frames: Tensor, skip: Tensor, counts: Tensor) -> None:
        """On the device: stores frames `[skip, skip + count)` of each row's `[B, n, *shape]`."""
        head, steps = self._head[slots], torch.arange(frames.shape[1], device=slots.device) - skip[:, None]
        valid = (steps >= 0) & (steps < counts[:, None])  # [B, n]
        self._ring[torch.where(valid, slots[:, None], self._scratch), (head[:, None] + steps) % self.capacity] = (
            frames.to(self._ring.dtype)
        )
        self._head[slots] = head + counts

    def commit(self, slots: Ints, promised: Ints | int, emitted: Ints) -> None:
        """Notes that `emitted` of the `promised` frames of these slots have arrived, and the rest will not come."""
        self._written[slots] += emitted
        self._promised[slots] -= promised - emitted
        self.changes += 1
        self._on_written()

    def commit_ahead(self, slots: Ints) -> None:
        """Commits a frame of each slot before it is computed, so that the consumer can launch at once: its launch waits
        for the frame on the device (`wait_on_device`). Only for frames that are certain to be emitted."""
        if self.device.type == "cuda":
            self._ahead = CudaEvent(self.device)
            self._ahead.record()
        self.commit(slots, 1, np.ones_like(slots))

    def landed_ahead(self) -> None:
        """Called when a launch that was committed ahead has landed. Later launches need not wait for it any more."""
        if self._ahead is not None and self._ahead.is_past():
            self._ahead = None

    def mark(self, slot: int, mark: Mark) -> None:
        """Puts a mark after the frames committed so far."""
        self._marks.add(slot, int(self._written[slot]), mark)
        self.changes += 1
        self._on_written()

    def end(self, slot: int) -> None:
        """Ends the stream of a slot: no frame and no mark will follow."""
        self._ended[slot] = True
        self.changes += 1
        self._on_written()

    def written(self, slot: int) -> int:
        """Returns how many frames were committed since the stream was opened."""
        return int(self._written[slot])

    # --- the consumer's side ---

    def begin(self, slots: Ints) -> None:
        """Sets the read position of these streams to their first frame."""
        self.rewind(upload(slots, self.device))

    def rewind(self, slots: Tensor) -> None:
        """On the device: sets the read position of these streams to their first frame."""
        self._tail.index_fill_(0, slots, 0)
        self._start.index_fill_(0, slots, 0)

    def wait_on_device(self) -> None:
        """Makes later launches wait, on the device, for frames that were committed ahead."""
        ahead = self._ahead
        if ahead is not None:
            ahead.hold_back()

    def available(self, slots: Ints) -> Ints:
        """Returns, for each slot, how many frames before its next mark have arrived and are not consumed yet."""
        available: Ints = np.minimum(self._written[slots], self._marks.next_at[slots]) - self._consumed[slots]
        return available

    def ask(self, slots: Ints) -> None:
        """Lifts the limit `lead` for those of these slots that have reached it unread, so that more frames come."""
        waiting = ~self._led[slots] & (self._written[slots] >= self.lead) & (self._released[slots] == 0)
        if self.lead and waiting.any():
            self._led[slots[waiting]] = True
            self.changes += 1
            self._on_released()

    def closing(self, slots: Ints) -> Bools:
        """Returns, for each slot, whether all frames up to its next mark, or up to the end of its stream, have arrived.

        Then there is no reason to wait, even if the frames do not fill a whole block.
        """
        return self._ended[slots] | (self._marks.next_at[slots] <= self._written[slots])

    def consumed(self, slots: Ints) -> Ints:
        return self._consumed[slots]

    def at_mark(self, slots: Ints) -> Ints:
        """Returns those of the slots whose next mark comes before the next frame, with no launch in flight."""
        consumed = self._consumed[slots]
        reached: Bools = (consumed == self._marks.next_at[slots]) & (consumed == self._released[slots])
        return np.asarray(slots[reached])

    def pass_mark(self, slot: int) -> Mark:
        """Removes and returns a mark (a pause, or the end of a segment) whose place in the stream has been reached."""
        return self._marks.take(slot)

    def begin_segment(self, slots: Ints) -> None:
        """Starts a segment: frames consumed so far are no context for later frames."""
        on_device, consumed = upload_all((slots, self._consumed[slots]), self.device)
        self._start[on_device] = consumed

    def window(self, slots: Tensor, due: int, inputs: Tensor | None = None, seen: int = 0) -> Window:
        """On the device: returns the next `due` frames of each row with their context, except the first `seen` of them.

        `inputs [B, 3]` has, for each row, the frames its first block lacks, the frames to work on, and the frames of
        look-ahead that have arrived; None: every row has all of its frames.
        """
        reach = self._reach
        steps = torch.arange(seen - reach.lookbehind, due + reach.lookahead, device=slots.device)
        tail = self._tail[slots][:, None]
        if inputs is None:
            return Window(self._ring[slots[:, None], (tail + steps) % self.capacity], due, reach)
        skip, count, ahead = (inputs[:, i, None] for i in range(3))
        index = tail - skip + steps
        present = (index >= self._start[slots][:, None]) & (index < tail + count + ahead)
        return Window(self._ring[slots[:, None], index % self.capacity], due, reach, present)

    def advance(self, slots: Tensor, counts: Tensor | int) -> None:
        """Moves the read position on the device past these frames."""
        self._tail[slots] += counts

    def consume(self, slots: Ints, counts: Ints) -> None:
        """Notes that a launch which reads these frames has started."""
        self._consumed[slots] += counts

    def release(self, slots: Ints, counts: Ints) -> None:
        """Notes that a launch which read these frames has ended, so that the producer may overwrite them."""
        self._released[slots] += counts
        self.changes += 1
        self._on_released()

    def exhausted(self, slots: Ints) -> Bools:
        """Returns, for each slot, whether its stream has ended and all its frames and marks have been read."""
        read = (self._released[slots] == self._written[slots]) & (self._marks.next_at[slots] > self._written[slots])
        exhausted: Bools = self._ended[slots] & read
        return exhausted
