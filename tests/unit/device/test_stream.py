"""The edge between two stages: what is put in comes out once, in order, with its context."""

import numpy as np
import pytest
import torch

from rhapsode.device.marks import SegmentEnd, Silence
from rhapsode.device.reach import Reach
from rhapsode.device.stream import FrameStream

CPU = torch.device("cpu")
SLOTS = 3


def nothing() -> None:
    """Nobody waits."""


def stream(capacity=8, on_released=nothing, lead=0, **reach):
    ends = {"on_written": nothing, "on_released": on_released, "lead": lead}
    made = FrameStream(SLOTS, capacity, (1,), torch.int64, CPU, Reach(**reach), **ends)
    made.open(np.arange(SLOTS))
    made.begin(np.arange(SLOTS))
    return made


def slots(*which):
    return torch.tensor(which), np.array(which)


def produce(edge, slot, values):
    on_device, on_host = slots(slot)
    for value in values:
        edge.promise(on_host)
        edge.put(on_device, torch.tensor([[value]]), torch.tensor([True]))
        edge.commit(on_host, 1, np.array([1]))


def consume(edge, slot, count):
    on_device, on_host = slots(slot)
    frames = edge.window(on_device, count).frames[0, :, 0].tolist()
    edge.advance(on_device, count)
    edge.consume(on_host, np.array([count]))
    edge.release(on_host, np.array([count]))
    return frames


def test_frames_come_out_in_order_past_the_end_of_the_ring():
    edge, heard = stream(capacity=4), []
    for start in range(0, 12, 2):
        produce(edge, 1, [start, start + 1])
        heard += consume(edge, 1, 2)
    assert heard == list(range(12))


def test_a_producer_leads_by_no_more_than_it_may_until_its_frames_are_read_or_asked_for():
    woken = []
    edge = stream(on_released=lambda: woken.append(True), lead=1)
    edge.ask(np.array([0]))
    assert (edge.room()[:2].tolist(), woken) == ([1, 1], [])  # it has not come to its limit
    produce(edge, 0, [5])
    produce(edge, 1, [6])
    assert edge.room()[:2].tolist() == [0, 0]
    edge.ask(np.array([0]))
    assert (edge.room()[:2].tolist(), woken) == ([7, 0], [True])
    assert consume(edge, 1, 1) == [6]
    assert edge.room()[1] == 8
    edge.open(np.array([1]))
    assert edge.room()[1] == 1


def test_a_frame_that_is_not_emitted_leaves_no_trace():
    edge, (on_device, on_host) = stream(), slots(0)
    edge.promise(on_host)
    edge.put(on_device, torch.tensor([[99]]), torch.tensor([False]))
    edge.commit(on_host, 1, np.array([0]))
    produce(edge, 0, [5])
    assert edge.available(on_host).tolist() == [1]
    assert consume(edge, 0, 1) == [5]


def test_the_producer_has_no_room_for_frames_that_may_still_be_read():
    edge, (_, on_host) = stream(capacity=4, lookbehind=1), slots(0)
    produce(edge, 0, range(4))
    assert edge.room()[0] == 0
    edge.consume(on_host, np.array([2]))
    assert edge.room()[0] == 0  # a launch is still reading them
    edge.release(on_host, np.array([2]))
    assert edge.room()[0] == 1  # and one stays, to be looked at again


@pytest.mark.parametrize(("skip", "count", "ahead"), [(0, 2, 1), (1, 1, 1), (0, 1, 0), (0, 2, 0)])
def test_a_window_says_which_of_its_frames_are_present(skip, count, ahead):
    edge = stream(lookbehind=2, lookahead=1, granularity=2)
    produce(edge, 2, range(10, 16))
    if not skip:
        edge.advance(torch.tensor([2]), 3)
    window = edge.window(torch.tensor([2]), 2, torch.tensor([[skip, count, ahead]]))
    behind = [True, True] if not skip else [False, False]
    due = [i >= skip and i < skip + count for i in range(2)]
    # What follows the frames to work on is look-ahead, wherever the block ends.
    after = [skip + count + i < skip + count + ahead for i in range(3 - skip - count)]
    assert window.present[0].tolist() == [*behind, *due[: skip + count], *after]
    first = 13 - 2 if not skip else 10 - 3
    present = window.present[0]
    assert window.frames[0, :, 0][present].tolist() == [first + i for i in range(5) if present[i]]


def test_a_window_leaves_out_what_an_incremental_worker_has_seen():
    edge, (on_device, _) = stream(lookahead=2, incremental=True), slots(0)
    produce(edge, 0, range(5))
    first = edge.window(on_device, 1, torch.tensor([[0, 1, 2]]))
    edge.advance(on_device, 1)
    later = edge.window(on_device, 2, torch.tensor([[0, 2, 2]]), 2)
    edge.advance(on_device, 2)
    last = edge.window(on_device, 2, torch.tensor([[0, 2, 0]]), 2)
    assert [window.frames[0, :, 0].tolist() for window in (first, later)] == [[0, 1, 2], [3, 4]]
    assert [window.present.all().item() for window in (first, later)] == [True, True]
    assert last.present[0].tolist() == [False, False]  # the end has been seen


@pytest.mark.parametrize("others", [{"lookbehind": 1}, {"granularity": 2}])
def test_an_incremental_worker_rereads_nothing_and_works_on_single_frames(others):
    with pytest.raises(ValueError, match="incremental"):
        Reach(lookahead=2, incremental=True, **others)


def test_frames_before_a_segment_are_no_context_of_it():
    edge, (on_device, on_host) = stream(lookbehind=2), slots(1)
    produce(edge, 1, range(4))
    edge.advance(on_device, 3)
    edge.consume(on_host, np.array([3]))
    edge.begin_segment(on_host)
    window = edge.window(on_device, 1, torch.tensor([[0, 1, 0]]))
    assert window.present[0].tolist() == [False, False, True]


class TestMarks:
    def test_nothing_is_consumed_past_a_mark_before_it_is_passed(self):
        edge, (_, on_host) = stream(), slots(0)
        produce(edge, 0, [1, 2])
        edge.mark(0, SegmentEnd())
        produce(edge, 0, [3])
        assert edge.available(on_host).tolist() == [2]
        assert edge.closing(on_host).tolist() == [True]
        assert not len(edge.at_mark(on_host))
        consume(edge, 0, 2)
        assert edge.at_mark(on_host).tolist() == [0]
        assert edge.pass_mark(0) == SegmentEnd()
        assert edge.available(on_host).tolist() == [1]
        assert edge.closing(on_host).tolist() == [False]

    def test_marks_at_one_place_keep_their_order(self):
        edge, (_, on_host) = stream(), slots(0)
        edge.mark(0, Silence(0.5))
        edge.mark(0, SegmentEnd())
        assert [edge.pass_mark(0) for _ in edge.at_mark(on_host)] == [Silence(0.5)]
        assert edge.pass_mark(0) == SegmentEnd()

    def test_a_stream_that_ends_with_a_mark_is_not_exhausted_before_it_is_passed(self):
        edge, (_, on_host) = stream(), slots(0)
        produce(edge, 0, [1])
        consume(edge, 0, 1)
        edge.mark(0, Silence(0.5))
        edge.end(0)
        assert not edge.exhausted(on_host)[0]
        edge.pass_mark(0)
        assert edge.exhausted(on_host)[0]

    def test_the_next_owner_of_a_slot_finds_none(self):
        edge, (_, on_host) = stream(), slots(0)
        edge.mark(0, Silence(0.5))
        edge.open(on_host)
        produce(edge, 0, [1])
        assert edge.available(on_host).tolist() == [1]


def test_runs_are_stored_without_the_frames_that_only_fill_a_block():
    edge = stream()
    both, (_, on_host) = torch.tensor([0, 1]), slots(0, 1)
    frames = torch.arange(8).view(2, 4, 1)
    edge.promise(on_host, np.array([2, 4]))
    edge.put_run(both, frames, torch.tensor([1, 0]), torch.tensor([2, 4]))
    edge.commit(on_host, np.array([2, 4]), np.array([2, 4]))
    assert consume(edge, 0, 2) == [1, 2]
    assert consume(edge, 1, 4) == [4, 5, 6, 7]
