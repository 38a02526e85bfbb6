"""Prefill: how rows join."""

import pytest
import torch

from rhapsode.device.kv import KVLayout
from rhapsode.device.memory import SlotMemory
from rhapsode.device.state import State
from rhapsode.engine.job import Job
from rhapsode.engine.prefill import CROWD_TURNS, STALL_S, Prefill
from rhapsode.engine.row import PromptRow
from rhapsode.models.base import Prompt
from rhapsode.types import Sampling, SpeechRequest

SLOTS = 40
POSITIONS_PER_TURN = 32
GREEDY = Sampling(temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1.0)


class Worker:
    def prefill(self, prompts, spans, rows, state):
        """Computes nothing: what matters here is when rows are ready."""


class Nothing(State):
    pass


def row(slot, length, part=0):
    job = Job(f"r{slot}", SpeechRequest("Hi."), 24_000, lambda job: None, lambda job: None)
    job.slot = slot
    return PromptRow(job, Prompt(10, length=length), reserve=length + 10, part=part)


def memory():
    cpu, layout = torch.device("cpu"), KVLayout(1, 1, 4)
    return SlotMemory(SLOTS, [layout], Nothing(), cpu, torch.float32, page_size=16, positions_per_slot=128)


@pytest.fixture
def prefill():
    return Prefill(Worker().prefill, memory(), GREEDY, POSITIONS_PER_TURN, alone=False, together=True, inline=True)


def starts(prefill, turns):
    """Slots that start, by turn."""
    return [[row.slot for row in prefill.turn(pytest.fail).ready] for _ in range(turns)]


def test_a_row_that_comes_alone_starts_at_once(prefill):
    prefill.add(row(0, 20))
    assert starts(prefill, 2) == [[0], []]


def test_a_crowd_that_needs_several_launches_starts_together(prefill):
    for slot in range(4):
        prefill.add(row(slot, 30))
    assert starts(prefill, 5) == [[], [], [], [0, 1, 2, 3], []]


def test_later_comers_do_not_prolong_the_wait(prefill):
    for slot in range(2):
        prefill.add(row(slot, 30))
    assert starts(prefill, 1) == [[]]
    for slot in range(2, 5):
        prefill.add(row(slot, 30))
    assert starts(prefill, 4) == [[0, 1], [], [], [2, 3, 4]]


def test_the_wait_is_bounded(prefill):
    for slot in range(SLOTS):
        prefill.add(row(slot, 30))
    assert starts(prefill, CROWD_TURNS) == [[]] * (CROWD_TURNS - 1) + [list(range(CROWD_TURNS))]


def test_a_listener_who_hears_already_waits_for_nobody(prefill):
    prefill.add(row(0, 30, part=1))
    prefill.add(row(1, 30))
    prefill.add(row(2, 30))
    assert starts(prefill, 3) == [[0], [], [1, 2]]


def test_rows_that_leave_hold_up_nobody(prefill):
    rows = [row(slot, 30) for slot in range(3)]
    for one in rows:
        prefill.add(one)
    assert starts(prefill, 1) == [[]]
    prefill.leave(rows[2])
    prefill.leave(rows[0])
    assert starts(prefill, 2) == [[1], []]


def test_prompts_do_not_keep_those_waiting_who_listen_already(monkeypatch):
    now = [1.0]
    monkeypatch.setattr("rhapsode.device.launch_times.clock_s", lambda: now[0])
    ran: list[int] = []

    class Slow(Worker):
        def prefill(self, prompts, spans, rows, state):
            ran.append(sum(span.stop - span.start for span in spans))
            now[0] += 0.001 * ran[-1]

    made = Prefill(Slow().prefill, memory(), GREEDY, 1024, alone=False, inline=True)
    for slot in range(3):
        made.add(row(slot, 50))
    made.turn(pytest.fail)
    for slot in range(3, 6):
        made.add(row(slot, 50))
    while made.turn(pytest.fail, speaking=True)[1]:
        pass
    assert (ran[0], sum(ran[1:])) == (150, 150)
    assert 20 < max(ran[1:]) <= STALL_S / 0.001
