"""The planner of chunks: who is served next, and with how much."""

import ast
import inspect
from types import ModuleType

import numpy as np
import pytest

from rhapsode.config import ChunkConfig
from rhapsode.engine import clock as clocks
from rhapsode.engine import planner, relay, schedule
from rhapsode.engine.clock import ListenerClock
from rhapsode.engine.costs import ChunkCosts
from rhapsode.engine.goals import CPU, DETERMINISTIC, GPU
from rhapsode.engine.pace import Pace
from rhapsode.engine.planner import Choice, ChunkPlanner, Ready
from rhapsode.engine.relay import RelayPlanner
from rhapsode.engine.schedule import ChunkSchedule

LIVE = np.array([0, 1, 2])
RUNNING = np.zeros(3, bool)
BLOCK_S = 0.08


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(clocks, "clock_s", lambda: now[0])
    return now


class Stage:
    """A planner with four listeners, as a stage asks it."""

    def __init__(self, goals=GPU, block_s=BLOCK_S, **settings):
        config, schedule = ChunkConfig(**settings), ChunkSchedule(ChunkConfig(**settings), captured=True)
        self.listeners, self.talker = ListenerClock(4), Pace()
        self.costs = ChunkCosts(block_s, self.talker, inline=goals is CPU)
        self.planner = ChunkPlanner(4, schedule, config, goals, self.costs, self.listeners)
        for slot in range(4):
            self.planner.open(slot, None)

    def choose(self, blocks, closing=RUNNING, crowded=RUNNING, most=8, slots=LIVE, joining=0):
        given = (np.asarray(values)[: len(slots)] for values in (blocks, closing, crowded))
        ready = Ready(slots, *given, joining)
        return self.planner.choose(ready, most)

    def send(self, slot, blocks, audio_s):
        self.launched(Choice(np.array([slot]), blocks), audio_s)

    def launched(self, choice, audio_s):
        self.listeners.send(choice.slots, audio_s)
        self.planner.launched(choice)


class TestSchedule:
    def test_chunks_ramp_up_to_the_largest(self):
        schedule = ChunkSchedule(ChunkConfig(first=1, growth=2, largest=8), captured=True)
        sizes = [schedule.first]
        while len(sizes) < 6:
            sizes.append(schedule.after(sizes[-1]))
        assert sizes == [1, 2, 4, 8, 8, 8]

    def test_captured_sizes_cut_a_tail_into_pieces(self):
        schedule = ChunkSchedule(ChunkConfig(largest=8), captured=True)
        assert [schedule.fit(n) for n in (1, 3, 7, 8, 13)] == [1, 2, 4, 8, 8]
        assert ChunkSchedule(ChunkConfig(largest=8), captured=False).fit(13) == 13

    @pytest.mark.parametrize(("per_frame", "sizes"), [(1.0, (2, 8)), (2.0, (4, 16)), (0.2, (1, 1)), (0.5, (1, 4))])
    def test_sizes_in_frames_of_the_talker_are_counted_in_blocks_of_the_stage(self, per_frame, sizes):
        schedule = ChunkSchedule(ChunkConfig(first=2, largest=8), True, per_frame)
        assert (schedule.first, schedule.largest) == sizes


class TestGpu:
    def test_nothing_ready_means_nothing_to_do(self, clock):
        assert Stage().choose([0, 0, 0]) is None

    def test_first_audio_goes_before_everything_else(self, clock):
        stage = Stage()
        stage.launched(stage.choose([1, 0, 0]), 0.5)
        choice = stage.choose([2, 1, 0])
        assert choice.slots[0] == 1
        assert choice.blocks == 1

    def test_who_can_wait_gives_way_to_the_talker_after_two_launches(self, clock):
        stage, talker = self.comfortable()
        assert stage.choose([16, 16, 16]) is None
        talker.tick(3, 0.24)
        assert len(stage.choose([16, 16, 16]).slots) == 3

    def test_nobody_waits_for_a_talker_that_has_stopped(self, clock):
        stage, talker = self.comfortable()
        talker.pause()
        assert len(stage.choose([16, 16, 16]).slots) == 3

    def test_nobody_waits_for_a_talker_that_waits_for_room(self, clock):
        stage, _ = self.comfortable()
        assert len(stage.choose([16, 16, 16], crowded=np.array([True, False, False])).slots) == 3

    def test_who_cannot_wait_does_not_give_way(self, clock):
        stage, _ = self.comfortable()
        clock[0] += 0.4
        assert len(stage.choose([16, 16, 16]).slots) == 3

    def comfortable(self):
        """A stage whose listeners have 0.6 s left, right after two launches for one of them, and its talker's pace."""
        stage = Stage()
        for slot in LIVE:
            stage.send(slot, 1, 0.6)
        talker = stage.talker
        talker.tick(3, 0.24)
        for _ in range(2):
            stage.launched(stage.choose([16, 16, 16], most=1), 0.0)
        return stage, talker

    def test_who_runs_dry_soon_goes_before_first_audio_and_with_what_there_is(self, clock):
        stage = Stage()
        stage.launched(stage.choose([1, 0, 0]), 0.08)
        assert stage.choose([1, 1, 1]).slots.tolist() == [1, 2]
        clock[0] += 0.051
        choice = stage.choose([1, 2, 2])  # the other block of its chunk may come too late
        assert choice.slots.tolist() == [0, 1, 2]
        assert choice.blocks == 1
        assert stage.choose([2, 1, 1]).slots.tolist() == [0]

    def test_the_listener_nearest_to_silence_goes_first(self, clock):
        stage = Stage(comfort_s=0.0)
        for slot, audio_s in ((0, 3.0), (1, 0.5), (2, 2.0)):
            stage.send(slot, 1, audio_s)
        assert stage.choose([2, 2, 2]).slots.tolist() == [1, 2, 0]

    def test_a_listener_waits_for_a_whole_chunk_that_comes_in_time(self, clock):
        stage = Stage(patience_s=0.05)
        stage.send(0, 4, 1.0)
        clock[0] += 0.3
        assert stage.choose([3, 0, 0]) is None  # the other five come in 0.5 s, the last sample in 0.7

    def test_a_listener_for_whom_it_would_come_too_late_gets_what_there_is(self, clock):
        stage = Stage(patience_s=0.05)
        stage.send(0, 4, 1.0)
        clock[0] += 0.5
        assert stage.choose([3, 0, 0]).blocks == 2

    def test_even_in_silence_a_chunk_about_to_be_whole_is_waited_for(self, clock):
        stage = Stage(patience_s=0.05)
        stage.send(0, 1, 0.01)
        clock[0] += 0.04
        assert stage.choose([1, 0, 0]) is None
        clock[0] += 0.02
        assert stage.choose([1, 0, 0]).blocks == 1

    def test_an_urgent_small_chunk_does_not_make_the_next_ones_small(self, clock):
        stage = Stage(comfort_s=9.0)
        stage.send(0, 8, 1.0)
        stage.send(0, 1, 0.1)
        assert stage.choose([15, 0, 0]) is None
        assert stage.choose([16, 0, 0]).blocks == 16

    def test_listeners_with_plenty_to_play_wait_for_company(self, clock):
        stage = Stage(comfort_s=1.0)
        for slot in range(3):
            stage.send(slot, 1, 5.0)
        assert stage.choose([2, 1, 1]) is None
        assert stage.choose([2, 2, 2]).slots.tolist() == [0, 1, 2]

    def test_nobody_waits_once_the_ring_is_full_or_the_talker_has_ended(self, clock):
        stage = Stage(comfort_s=1.0)
        for slot in range(3):
            stage.send(slot, 1, 5.0)
        assert stage.choose([2, 1, 1], crowded=[True, False, False]).slots.tolist() == [0]
        assert stage.choose([1, 1, 1], closing=[True, False, False]).slots.tolist() == [0]

    def test_rows_that_start_together_take_what_all_of_them_have(self, clock):
        assert Stage().choose([5, 9, 45]).blocks == 4
        assert Stage().choose([45, 1, 45]).blocks == 1
        assert Stage().choose([45, 1, 45], closing=[False, True, False]).blocks == 16
        assert Stage().choose([45, 0, 45]).slots.tolist() == [0, 2]

    def test_rows_that_speak_already_do_not_make_a_first_chunk_small(self, clock):
        stage = Stage(comfort_s=0.0)
        stage.send(0, 1, 0.5)
        choice = stage.choose([2, 8, 0])
        assert (choice.slots.tolist(), choice.blocks) == ([1], 8)

    def test_a_batch_is_no_larger_than_allowed(self, clock):
        assert len(Stage().choose([1, 1, 1], most=2).slots) == 2


def slow(clock, cost_s, **settings):
    """A codec whose blocks take so long, as a CPU's do; none of the listeners has heard anything."""
    stage = Stage(CPU, **settings)
    choice = stage.choose([1], closing=[True], crowded=[False], slots=np.array([3]))
    clock[0] += cost_s
    stage.launched(choice, BLOCK_S)
    return stage


class TestCpu:
    def test_first_chunks_last_until_all_are_served_again(self, clock):
        stage = slow(clock, 0.012)
        assert stage.choose([1, 1, 1]) is None  # 80 ms, of which one more block of each would take 36: too near
        assert stage.choose([2, 2, 2]).blocks == 2
        assert slow(clock, 0.004).choose([1, 1, 1]).blocks == 1

    def test_those_who_are_about_to_join_are_counted(self, clock):
        assert slow(clock, 0.012).choose([1, 0, 0], joining=0, slots=LIVE[:1]).blocks == 1
        assert slow(clock, 0.012).choose([1, 0, 0], joining=2, slots=LIVE[:1]) is None

    def test_a_launch_has_no_more_rows_than_those_who_listen_can_wait_for(self, clock):
        stage = slow(clock, 0.012)
        assert len(stage.choose([4, 4, 4]).slots) == 3
        stage.send(0, 2, 2 * BLOCK_S)
        stage.costs.launch_s = 0.012
        newcomers = stage.choose([0, 4, 4])
        assert (newcomers.slots.tolist(), newcomers.blocks) == ([1, 2], 2)  # 48 ms, of 160
        clock[0] += 0.1
        assert len(stage.choose([0, 4, 4]).slots) == 1

    def test_a_launch_has_no_more_rows_than_its_most_urgent_listener_can_wait_for(self, clock):
        stage = slow(clock, 0.02)
        for slot in range(3):
            stage.send(slot, 1, 0.07 + 0.01 * slot)
        stage.costs.launch_s = 0.02
        choice = stage.choose([1, 1, 1])
        assert (choice.slots.tolist(), choice.blocks) == ([0, 1], 1)  # three take 60 ms, too near to 70

    def test_first_audio_waits_for_listeners_who_would_run_dry_meanwhile(self, clock):
        stage = slow(clock, 0.02)
        stage.send(0, 1, 0.15)
        stage.costs.launch_s = 0.02
        newcomer = {"closing": [False, True], "slots": LIVE[:2]}
        assert stage.choose([1, 4], **newcomer).slots.tolist() == [1]  # 80 ms
        clock[0] += 0.05
        choice = stage.choose([1, 4], **newcomer)
        assert (choice.slots.tolist(), choice.blocks) == ([0, 1], 1)  # 40 ms: in time for both

    def test_a_long_chunk_is_cut_to_what_a_listener_with_little_left_can_wait_for(self, clock):
        stage = slow(clock, 0.01)
        stage.send(0, 16, 3.0)
        stage.send(1, 1, 0.2)
        stage.costs.launch_s = 0.01
        choice = stage.choose([40, 0, 0], slots=LIVE[:2], crowded=[True, False])
        assert (choice.slots.tolist(), choice.blocks) == ([0], 8)  # 80 ms of the 200, not 160

    def test_who_has_plenty_waits_for_who_is_about_to_run_dry(self, clock):
        stage = slow(clock, 0.01)
        stage.send(0, 16, 3.0)
        stage.send(1, 1, 0.07)
        stage.costs.launch_s = 0.01
        two = {"slots": LIVE[:2], "crowded": [True, False]}
        assert stage.choose([40, 0, 0], **two) is None  # its frame is being made
        assert stage.choose([40, 2, 0], **two).slots.tolist() == [1]
        clock[0] += 0.08
        assert stage.choose([40, 0, 0], **two).slots.tolist() == [0]  # it is dry, and may wait for its text

    def test_a_launch_is_short_while_somebody_has_heard_nothing(self, clock):
        stage = slow(clock, 0.01)
        stage.send(0, 16, 0.9)
        stage.costs.launch_s = 0.01
        assert stage.choose([40, 0, 0], slots=LIVE[:1]).blocks == 16
        assert stage.choose([40, 0, 0], slots=LIVE[:1], joining=1).blocks == 4

    def test_what_a_codec_costs_is_measured_while_a_talker_works_beside_it(self, clock):
        stage = slow(clock, 0.012)
        choice = stage.choose([8, 8, 8], closing=[True, True, True])
        clock[0] += 0.001
        stage.launched(choice, BLOCK_S)
        assert stage.costs.launch_s == pytest.approx(0.012)

    def test_a_first_chunk_does_not_wait_for_long_to_be_larger(self, clock):
        stage = slow(clock, 0.012, patience_s=0.05)
        assert stage.choose([1, 0, 0]) is None
        clock[0] += 0.06
        assert stage.choose([1, 0, 0]).blocks == 1  # the text may go on only once something is heard

    def test_a_first_chunk_of_the_size_that_was_asked_for_is_sent_as_it_is(self, clock):
        stage = slow(clock, 0.01)
        stage.planner.open(0, 8)
        assert stage.choose([7, 0, 0]) is None
        assert stage.choose([8, 0, 0]).blocks == 8

    def test_no_chunk_is_longer_than_listeners_can_wait(self, clock):
        stage = slow(clock, 0.01)
        for slot in range(3):
            stage.send(slot, 4, 4 * BLOCK_S)
        stage.costs.launch_s = 0.01
        assert stage.choose([8, 8, 8]).blocks == 4  # five of each would take half of what they have
        clock[0] += 0.2
        assert stage.choose([8, 8, 8]).blocks == 2

    def test_a_listener_in_silence_gets_chunks_that_are_worth_a_launch(self, clock):
        stage = Stage(CPU, block_s=0.02)
        stage.send(0, 8, 0.16)
        stage.costs.launch_s = 0.02  # a launch of one block: 20 ms, and so much for each of four
        clock[0] += 0.2
        assert stage.choose([16, 0, 0]).blocks == 4


@pytest.mark.parametrize("goals", [GPU, CPU], ids=["gpu", "cpu"])
class TestBusyTalker:
    def stage(self, goals, factor, block_s=BLOCK_S):
        stage = Stage(goals, block_s)
        stage.talker.observe(3, factor * block_s, 3 * block_s)
        return stage

    def test_short_blocks_make_first_chunks_that_last_as_long(self, goals, clock):
        stage = self.stage(goals, 0.7, BLOCK_S / 2)
        assert stage.choose([7, 7, 7]) is None
        assert stage.choose([8, 8, 8]).blocks == 8

    def test_the_first_chunk_of_a_talker_that_is_hardly_faster_than_its_listeners_is_larger(self, goals, clock):
        assert self.stage(goals, 0.14).choose([1, 1, 1]).blocks == 1
        stage = self.stage(goals, 0.7)
        assert stage.choose([1, 1, 1]) is None
        assert stage.choose([3, 3, 3]) is None
        assert stage.choose([4, 4, 4]).blocks == 4

    def test_it_waits_for_no_longer_than_the_talker_should_need(self, goals, clock):
        stage = self.stage(goals, 0.7)
        assert stage.choose([1, 0, 0]) is None
        clock[0] += 3 * 0.7 * BLOCK_S + 0.04
        assert stage.choose([2, 0, 0]) is None
        clock[0] += 0.02
        assert stage.choose([2, 0, 0]).blocks == 2


def test_first_chunks_are_larger_while_many_join(clock):
    stage = Stage(GPU)
    for rows in (3, 103):
        stage.talker.observe(rows, 0.1 * BLOCK_S, rows * BLOCK_S)
    assert stage.choose([1, 1, 1], joining=100) is None  # their prompts take 40 ms between two frames
    assert stage.choose([4, 4, 4], joining=100).blocks == 4
    assert stage.choose([1, 1, 1], joining=40) is None
    assert stage.choose([2, 2, 2], joining=40).blocks == 2
    assert stage.choose([1, 1, 1], joining=4).blocks == 1


class TestDeterministic:
    def test_the_clock_has_no_say(self, clock):
        stage = Stage(DETERMINISTIC)
        stage.send(0, 4, 0.01)
        clock[0] += 100.0
        assert stage.choose([7, 0, 0]) is None
        assert stage.choose([8, 0, 0]).blocks == 8

    def test_only_rows_whose_own_chunk_has_this_size_go_together(self, clock):
        stage = Stage(DETERMINISTIC, comfort_s=9.0)
        stage.send(0, 2, 0.1)  # next: 4
        stage.send(1, 1, 0.2)  # next: 2
        choice = stage.choose([8, 8, 0])
        assert (choice.slots.tolist(), choice.blocks) == ([0], 4)


class TestRelay:
    def relay(self, one_block=False):
        listeners = ListenerClock(4)
        return RelayPlanner(ChunkSchedule(ChunkConfig(largest=8), captured=True), listeners, one_block), listeners

    def choose(self, planner, blocks, most=8):
        return planner.choose(Ready(LIVE, np.array(blocks), RUNNING, RUNNING), most)

    def test_whatever_is_complete_goes_on_at_once(self, clock):
        planner, _ = self.relay()
        assert self.choose(planner, [0, 0, 0]) is None
        choice = self.choose(planner, [0, 3, 5])
        assert (choice.slots.tolist(), choice.blocks) == ([1, 2], 2)

    def test_the_most_urgent_listener_decides_the_size(self, clock):
        planner, listeners = self.relay()
        listeners.send(np.array([0, 1, 2]), np.array([3.0, 2.0, 1.0]))
        choice = self.choose(planner, [1, 8, 9])
        assert (choice.slots.tolist(), choice.blocks) == ([2, 1], 8)

    def test_a_stage_that_works_block_by_block_takes_one_of_each(self, clock):
        planner, _ = self.relay(one_block=True)
        choice = self.choose(planner, [4, 1, 9], most=2)
        assert (choice.slots.tolist(), choice.blocks) == ([0, 1], 1)


@pytest.mark.parametrize("module", [planner, relay, schedule], ids=lambda module: module.__name__)
def test_what_is_tuned_is_a_goal(module: ModuleType) -> None:
    """A number in the plan itself would be one that no deployment sees."""
    literals = (node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Constant))
    assert {node.value for node in literals if type(node.value) in (int, float)} <= {0, 1}
