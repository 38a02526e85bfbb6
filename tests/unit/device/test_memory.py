"""The memory of slots: what no request needs any more goes back to the system, and nothing else."""

from pathlib import Path

import pytest
import torch

from rhapsode.device.kv import KVLayout
from rhapsode.device.memory import SlotMemory
from rhapsode.device.pages import page_keys
from rhapsode.device.state import State
from unit.device.test_zeros import resident_bytes

PAGE, POSITIONS, SLOTS = 16, 1024, 8
LAYOUT = KVLayout(layers=4, heads=4, head_dim=64)
SLOT_BYTES = POSITIONS * LAYOUT.bytes_per_position(torch.float32)  # 8 MiB

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the resident memory")


def memory() -> SlotMemory:
    cpu = torch.device("cpu")
    return SlotMemory(SLOTS, [LAYOUT], State(), cpu, torch.float32, page_size=PAGE, positions_per_slot=POSITIONS)


def take(memory: SlotMemory, value: float, pages: int = POSITIONS // PAGE) -> list[int]:
    """Gives a request its pages, and fills them."""
    taken, _ = memory.pool.reserve(pages, [])
    for part in (memory.kv[0].keys, memory.kv[0].values):
        part[:, taken] = value
    return taken


def test_pages_of_requests_that_have_ended_are_given_back_and_those_of_others_stay() -> None:
    slots = memory()
    before = resident_bytes()
    pages = [take(slots, value) for value in range(1, SLOTS + 1)]
    assert resident_bytes() - before > 0.9 * SLOTS * SLOT_BYTES
    for ended in (*pages[:3], *pages[4:]):
        slots.pool.free(ended)
    slots.give_back()
    assert resident_bytes() - before < 1.5 * SLOT_BYTES
    assert (slots.kv[0].keys[:, pages[3]] == 4).all()
    assert (slots.kv[0].values[:, pages[3]] == 4).all()
    again = take(slots, 9)
    assert (slots.kv[0].keys[:, again] == 9).all()


def test_no_more_is_kept_for_sharing_than_one_request_can_have() -> None:
    slots = memory()
    before = resident_bytes()
    for value in range(1, SLOTS + 1):
        pages = take(slots, value)
        content = torch.full((POSITIONS, 1), value).numpy()
        for page, key in zip(pages, keys := page_keys(content, PAGE), strict=True):
            slots.pool.publish(page, key)
        slots.pool.free(pages)
    slots.give_back()
    assert resident_bytes() - before < 1.5 * SLOT_BYTES
    shared, count = slots.pool.reserve(len(keys), keys)
    assert count == len(keys)
    assert (slots.kv[0].keys[:, shared] == SLOTS).all()
