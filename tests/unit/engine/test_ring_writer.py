"""Frames that a burst has made go into the rings as there is room; later stages hear of them once they are there."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rhapsode.device.reach import Reach
from rhapsode.device.stream import FrameStream
from rhapsode.engine.ring_writer import RingWriter
from rhapsode.engine.row import BurstRow, Progress
from rhapsode.models.base import Prompt

SLOT, CAPACITY = 1, 8
CPU = torch.device("cpu")


class Event:
    """A point in the work of a device that is reached when the test says so."""

    reached = False

    def is_past(self) -> bool:
        return Event.reached


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> RingWriter:
    """A writer whose device is still working."""
    Event.reached = False
    monkeypatch.setattr(RingWriter, "_here", lambda self: Event())
    return ring_of()


def nothing() -> None:
    """Nobody waits."""


def ring_of() -> RingWriter:
    ring = RingWriter(
        [FrameStream(2, CAPACITY, (), torch.int64, CPU, Reach(), on_written=nothing, on_released=nothing)], CPU
    )
    ring.open(SLOT)
    return ring


def row_of(frames: int, limit: int = 100) -> BurstRow:
    job: Any = SimpleNamespace(slot=SLOT)
    row = BurstRow(job, Prompt(max_frames=100), frames=torch.arange(frames), made=frames, limit=limit)
    row.progress = Progress.MADE
    return row


def waiting(ring: RingWriter) -> int:
    return int(ring.unread(np.array([SLOT]))[0])


def read(ring: RingWriter, count: int) -> list[int]:
    stream, slots = ring._streams[0], np.array([SLOT])
    frames = stream.window(torch.tensor([SLOT]), count).frames[0].tolist()
    stream.advance(torch.tensor([SLOT]), count)
    stream.consume(slots, np.array([count]))
    stream.release(slots, np.array([count]))
    return frames


def test_what_does_not_fit_is_sent_later_and_in_order() -> None:
    ring, row = ring_of(), row_of(11)
    assert ring.send(row, int(ring.room()[SLOT])) == CAPACITY
    assert not row.is_sent
    assert read(ring, 5) == [0, 1, 2, 3, 4]
    assert ring.send(row, int(ring.room()[SLOT])) == 3
    assert row.is_sent
    assert row.frames is None
    assert read(ring, 6) == [5, 6, 7, 8, 9, 10]


def test_the_rest_is_no_part_of_what_the_launch_made() -> None:
    ring, row = ring_of(), row_of(11)
    made = row.frames
    ring.send(row, 2)
    assert made is not None
    assert row.frames is not None
    assert row.frames.untyped_storage().data_ptr() != made.untyped_storage().data_ptr()


def test_no_more_is_sent_than_is_to_be_heard() -> None:
    ring, row = ring_of(), row_of(6, limit=4)
    assert ring.send(row, CAPACITY) == 4
    assert row.is_sent
    assert row.frames is None


def test_later_stages_hear_of_frames_when_these_have_been_written(ring: RingWriter) -> None:
    row = row_of(3)
    assert ring.send(row, CAPACITY) == 3
    assert waiting(ring) == 0
    assert not row.is_sent
    assert ring.poll_s is not None
    Event.reached = True
    assert ring.commit()
    assert waiting(ring) == 3
    assert row.is_sent
    assert ring.poll_s is None


def test_nobody_hears_of_frames_whose_request_has_left(ring: RingWriter) -> None:
    ring.send(row_of(3), CAPACITY)
    ring.forget(SLOT)
    ring.open(SLOT)  # for the next owner
    Event.reached = True
    assert not ring.commit()
    assert waiting(ring) == 0
    assert int(ring.room()[SLOT]) == CAPACITY
