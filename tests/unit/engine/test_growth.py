"""Pages taken block by block: who joins, who waits, and that everybody finishes."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.device.kv import KVLayout
from rhapsode.device.memory import SlotMemory
from rhapsode.device.state import State
from rhapsode.engine.growth import PageGrowth, can_all_finish, plan_pages
from rhapsode.engine.row import StreamRow
from rhapsode.models.base import Prompt

PAGE = 4


class SlotJob:
    def __init__(self, slot: int) -> None:
        self.slot = slot


def memory_of(pages: int) -> SlotMemory:
    layouts = (KVLayout(1, 1, 1),)
    device = torch.device("cpu")
    return SlotMemory(
        8, layouts, State(), device, torch.float32, page_size=PAGE, pages=pages, positions_per_slot=PAGE * pages
    )


def row_of(memory: SlotMemory, slot: int, frames: int, expected: int | None = None, prompt: int = 0) -> StreamRow:
    row = StreamRow(SlotJob(slot), Prompt(frames, length=prompt * PAGE, expected_frames=expected))
    assert plan_pages(row, 1, memory.most_positions, grows=True)
    return row


def join(growth: PageGrowth, row: StreamRow) -> bool:
    reserved = growth.reserve(row)
    if reserved is not None:
        row.pages = reserved[0]
    return reserved is not None


def grow(growth: PageGrowth, row: StreamRow) -> bool:
    """Gives a row its next page and uses it up, if it gets one."""
    served = growth.serve([row], np.array([1]), lambda row, error: None)[0] > 0
    row.used += PAGE * bool(served)
    return bool(served)


def test_a_request_joins_with_the_pages_of_its_prompt_alone():
    memory = memory_of(8)
    row = row_of(memory, 0, frames=20, prompt=2)
    assert join(PageGrowth(memory), row)
    assert len(row.pages) == 2


def test_admission_keeps_free_what_running_requests_are_expected_to_need():
    memory = memory_of(10)
    growth = PageGrowth(memory)
    assert join(growth, row_of(memory, 0, frames=32, expected=16))
    assert join(growth, row_of(memory, 1, frames=32, expected=16))
    assert not join(growth, row_of(memory, 2, frames=32, expected=16))


def test_a_request_that_ends_makes_room_for_the_next_one():
    memory = memory_of(10)
    growth, first = PageGrowth(memory), row_of(memory, 0, frames=40)
    assert join(growth, first)
    for _ in range(10):
        assert grow(growth, first)
    waiting = row_of(memory, 1, frames=8)
    assert not join(growth, waiting)
    memory.pool.free(first.pages)
    growth.leave(first)
    assert join(growth, waiting)


def test_the_page_table_has_the_new_pages():
    memory = memory_of(4)
    growth, row = PageGrowth(memory), row_of(memory, 3, frames=12, prompt=1)
    join(growth, row)
    grow(growth, row)
    grow(growth, row)
    assert memory.table.pages[3, 1:3].tolist() == row.pages[1:]


def test_speech_past_the_positions_of_a_request_fails_it():
    memory, failed = memory_of(4), []
    growth, row = PageGrowth(memory), row_of(memory, 0, frames=99)
    join(growth, row)
    row.used = 4 * PAGE
    assert growth.serve([row], np.array([1]), lambda row, error: failed.append(str(error))).tolist() == [0]
    assert failed == ["the speech is longer than the 16 positions of one request."]


def test_the_order_in_which_requests_finish_is_found():
    assert can_all_finish(2, [(5, 3), (2, 3)])
    assert not can_all_finish(1, [(5, 3), (2, 3)])
    assert not can_all_finish(2, [(6, 3), (2, 3)])


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6), st.randoms())
def test_whatever_requests_need_all_of_them_finish(lengths, random):
    memory = memory_of(10)
    growth = PageGrowth(memory)
    waiting = [row_of(memory, slot, frames, min(frames, usual)) for slot, (frames, usual) in enumerate(lengths)]
    running: list[StreamRow] = []
    while waiting or running:
        while waiting and join(growth, waiting[0]):
            running.append(waiting.pop(0))
        assert running
        random.shuffle(running)
        moved = [row for row in running if grow(growth, row)]
        assert moved  # nobody waits for another who waits
        for row in [row for row in moved if row.used >= row.most]:
            running.remove(row)
            memory.pool.free(row.pages)
            growth.leave(row)
    assert memory.pool.in_use == 0
