import numpy as np
import pytest

from rhapsode.config import ChunkConfig
from rhapsode.engine import chunks
from rhapsode.engine.chunks import ChunkSchedule, Deadlines

LIVE = np.array([0, 1, 2])
RUNNING = np.zeros(3, bool)
FRAME_S = 0.08


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(chunks, "clock_s", lambda: now[0])
    return now


def deadlines(lookahead=0, working=False, **settings):
    config = ChunkConfig(**settings)
    made = Deadlines(4, ChunkSchedule(config, captured=True), config, FRAME_S, lookahead, working=working)
    for slot in range(4):
        made.open(slot, None)
    return made


def choose(made, ready, ended=RUNNING, room=64, most=8):
    return made.choose(LIVE, np.array(ready), np.asarray(ended, bool), room, most)


def test_chunks_ramp_up_to_the_largest():
    schedule = ChunkSchedule(ChunkConfig(first=1, growth=2, largest=8), captured=True)
    sizes = [schedule.first]
    while len(sizes) < 6:
        sizes.append(schedule.after(sizes[-1]))
    assert sizes == [1, 2, 4, 8, 8, 8]


def test_captured_sizes_cut_a_tail_into_pieces():
    schedule = ChunkSchedule(ChunkConfig(largest=8), captured=True)
    assert [schedule.fit(n) for n in (1, 3, 7, 8, 13)] == [1, 2, 4, 8, 8]
    assert ChunkSchedule(ChunkConfig(largest=8), captured=False).fit(13) == 13


def test_nothing_ready_means_nothing_to_do(clock):
    assert choose(deadlines(), [0, 0, 0]) is None


def test_first_audio_goes_before_everything_else(clock):
    made = deadlines()
    first = choose(made, [1, 0, 0])
    made.sent(first, 0.5)
    choice = choose(made, [2, 1, 0])
    assert choice.slots[0] == 1
    assert choice.frames == 1


def test_the_listener_nearest_to_silence_goes_first(clock):
    made = deadlines(comfort_s=0.0)
    for slot, audio_s in ((0, 3.0), (1, 0.5), (2, 2.0)):
        made.sent(chunks.Choice(np.array([slot]), 1, 0), audio_s)
    assert choose(made, [2, 2, 2]).slots.tolist() == [1, 2, 0]


def test_a_listener_waits_for_a_whole_chunk_that_comes_in_time(clock):
    made = deadlines(patience_s=0.05)
    made.sent(chunks.Choice(np.array([0]), 4, 0), 1.0)
    clock[0] += 0.3
    assert choose(made, [3, 0, 0]) is None  # the other five come in 0.5 s, the last sample in 0.7


def test_a_listener_for_whom_it_would_come_too_late_gets_what_there_is(clock):
    made = deadlines(patience_s=0.05)
    made.sent(chunks.Choice(np.array([0]), 4, 0), 1.0)
    clock[0] += 0.5
    assert choose(made, [3, 0, 0]).frames == 2


def test_even_in_silence_a_chunk_about_to_be_whole_is_worth_waiting_for(clock):
    made = deadlines(patience_s=0.05)
    made.sent(chunks.Choice(np.array([0]), 1, 0), 0.01)
    clock[0] += 0.04
    assert choose(made, [1, 0, 0]) is None
    clock[0] += 0.02
    assert choose(made, [1, 0, 0]).frames == 1


def test_haste_does_not_make_the_next_chunks_small(clock):
    made = deadlines()
    made.sent(chunks.Choice(np.array([0]), 8, 0), 1.0)
    made.sent(chunks.Choice(np.array([0]), 1, 0), 0.1)
    assert made.want[0] == 16


def test_listeners_with_plenty_in_hand_wait_for_company(clock):
    made = deadlines(comfort_s=1.0)
    for slot in range(3):
        made.sent(chunks.Choice(np.array([slot]), 1, 0), 5.0)
    assert choose(made, [2, 1, 1]) is None
    assert choose(made, [2, 2, 2]).slots.tolist() == [0, 1, 2]


def test_nobody_waits_once_the_ring_is_full_or_the_talker_has_ended(clock):
    made = deadlines(comfort_s=1.0)
    for slot in range(3):
        made.sent(chunks.Choice(np.array([slot]), 1, 0), 5.0)
    assert choose(made, [2, 1, 1], room=2).slots.tolist() == [0]
    assert choose(made, [1, 1, 1], ended=[True, False, False]).slots.tolist() == [0]


def test_a_batch_is_no_larger_than_allowed(clock):
    assert len(choose(deadlines(), [1, 1, 1], most=2).slots) == 2


def test_frames_that_must_be_looked_ahead_at_are_held_back(clock):
    made = deadlines(lookahead=2)
    assert choose(made, [2, 0, 0]) is None
    choice = choose(made, [3, 0, 0])
    assert (choice.frames, choice.ahead) == (1, 2)
    choice = choose(made, [2, 0, 0], ended=[True, False, False])
    assert (choice.frames, choice.ahead) == (1, 1)


def slow(clock, cost_s, **settings):
    """A codec whose frames take so long, as a CPU's do; none of the listeners has heard anything."""
    made = deadlines(working=True, **settings)
    choice = made.choose(np.array([3]), np.array([1]), np.array([True]), 64, 8)
    clock[0] += cost_s
    made.sent(choice, FRAME_S)
    return made


def test_where_a_launch_is_work_first_chunks_last_until_all_are_served_again(clock):
    made = slow(clock, 0.006)
    assert choose(made, [1, 1, 1]) is None  # 80 ms, of which two frames of each would take 36: too near
    assert choose(made, [2, 2, 2]).frames == 2
    assert choose(slow(clock, 0.001), [1, 1, 1]).frames == 1


def test_a_first_chunk_does_not_wait_for_long_to_be_larger(clock):
    made = slow(clock, 0.006, patience_s=0.05)
    assert choose(made, [1, 0, 0]) is None
    clock[0] += 0.06
    assert choose(made, [1, 0, 0]).frames == 1  # the text may go on only once something is heard


def test_a_first_chunk_of_the_size_that_was_asked_for_is_sent_as_it_is(clock):
    made = slow(clock, 0.01)
    made.open(0, 8)
    assert choose(made, [7, 0, 0]) is None
    assert choose(made, [8, 0, 0]).frames == 8


def test_where_a_launch_is_work_no_chunk_is_longer_than_listeners_can_wait(clock):
    made = slow(clock, 0.01)
    for slot in range(3):
        made.sent(chunks.Choice(np.array([slot]), 4, 0), 4 * FRAME_S)
    made._lately = np.array([0.01, 1.0])
    assert choose(made, [8, 8, 8]).frames == 4  # five of each would take half of what they have
    clock[0] += 0.2
    assert choose(made, [8, 8, 8]).frames == 2
