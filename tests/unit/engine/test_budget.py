from dataclasses import replace

import pytest
import torch

from rhapsode.config import resolve
from rhapsode.device.kv import KVLayout
from rhapsode.device.state import State, buffer
from rhapsode.engine import budget
from rhapsode.errors import ConfigError
from rhapsode.models.base import BlockPages, Traits

GPU = torch.device("cuda", 0)
PAGE_BYTES = 16 * 2 * 4 * 8 * 64 * 2  # positions, keys and values, layers, heads, channels, bfloat16
SLOT_BYTES = 1000 + 500


class Stateful:
    def __init__(self, slot_bytes: int) -> None:
        self._slot_bytes = slot_bytes

    def state(self, slots: int) -> State:
        state = State()
        state.held = buffer(slots, self._slot_bytes, dtype=torch.uint8)
        return state


class Part(Stateful):
    def traits(self) -> Traits:
        return Traits(kv=(KVLayout(4, 8, 64),), prefill=self.prefill)

    def prefill(self, prompts, spans, rows, state) -> None:
        raise AssertionError("nothing is prefilled here")


def fit(monkeypatch, free: int | None, **limits):
    monkeypatch.setattr(budget, "_room", lambda device, share: free)
    deployment = resolve(env={}, flags={"limits": {"max_positions": 1024, **limits}})
    fitted = budget.fit(deployment, [(Part(1000), 1), (Stateful(500), 1)], GPU, torch.bfloat16)
    return fitted.limits.slots, fitted.memory.pages


def test_what_is_asked_for_is_given_where_it_fits(monkeypatch):
    assert fit(monkeypatch, 1 << 40, max_concurrency=8) == (8, 8 * 64)


def test_pages_are_no_more_than_memory_holds(monkeypatch):
    assert fit(monkeypatch, 8 * SLOT_BYTES + 100 * PAGE_BYTES, max_concurrency=8) == (8, 100)


def test_auto_gives_every_slot_the_pages_of_a_usual_request(monkeypatch):
    slots, pages = fit(monkeypatch, 10 * (SLOT_BYTES + 32 * PAGE_BYTES), max_concurrency="auto")
    assert (slots, pages) == (10, 320)


def test_auto_has_an_end(monkeypatch):
    assert fit(monkeypatch, 1 << 50, max_concurrency="auto") == (512, 512 * 64)


def test_auto_on_a_cpu_is_a_modest_number(monkeypatch):
    assert fit(monkeypatch, None, max_concurrency="auto") == (32, None)


def test_slots_that_leave_no_room_for_one_request_are_an_error(monkeypatch):
    with pytest.raises(ConfigError, match="do not fit this GPU"):
        fit(monkeypatch, 8 * SLOT_BYTES + 10 * PAGE_BYTES, max_concurrency=8)


class Blocks(Part):
    def traits(self) -> Traits:
        return replace(super().traits(), pages=BlockPages(page_size=8, most_positions=80))


BLOCK_BYTES = 8 * 2 * 4 * 8 * 64 * 2


def test_pages_per_block_are_what_is_left(monkeypatch):
    monkeypatch.setattr(budget, "_room", lambda device, share: 30 * BLOCK_BYTES + 4 * 500)
    assert budget.block_pages(Blocks(1000), [Stateful(500)], 4, GPU, torch.bfloat16) == 30
    monkeypatch.setattr(budget, "_room", lambda device, share: 1 << 40)
    assert budget.block_pages(Blocks(1000), [Stateful(500)], 4, GPU, torch.bfloat16) == 4 * 10


def test_pages_per_block_on_a_cpu_are_a_usual_number_and_enough_for_one_request(monkeypatch):
    monkeypatch.setattr(budget, "_room", lambda device, share: None)
    assert budget.block_pages(Blocks(0), [], 4, GPU, torch.bfloat16) == 4 * budget.USUAL_BLOCKS
    assert budget.block_pages(Blocks(0), [], 1, GPU, torch.bfloat16) == 10


def test_auto_leaves_room_for_the_blocks_of_usual_requests(monkeypatch):
    per_slot = 2000 + 32 * PAGE_BYTES + budget.USUAL_BLOCKS * BLOCK_BYTES
    monkeypatch.setattr(budget, "_room", lambda device, share: 10 * per_slot)
    deployment = resolve(env={}, flags={"limits": {"max_positions": 1024, "max_concurrency": "auto"}})
    fitted = budget.fit(deployment, [(Part(1000), 1), (Blocks(1000), 2)], GPU, torch.bfloat16)
    assert (fitted.limits.slots, fitted.memory.pages) == (10, 320)


def test_without_a_talker_half_of_the_memory_is_left_to_launches(monkeypatch):
    monkeypatch.setattr(budget, "_room", lambda device, share: 2 * 500 * 9)
    deployment = resolve(env={}, flags={"limits": {"max_concurrency": "auto"}})
    assert budget.fit(deployment, [(Stateful(500), 1)], GPU, torch.bfloat16).limits.slots == 9
    assert budget.fit(deployment, [], GPU, torch.bfloat16).limits.slots == 512


def on_gpu(monkeypatch, memory: budget.GpuMemory, share: float | None) -> int:
    """How many slots one model of a GPU gets."""
    monkeypatch.setattr(budget, "_gpu_memory", lambda device: memory)
    flags = {"limits": {"max_positions": 1024, "max_concurrency": "auto"}, "memory": {"share": share}}
    return budget.fit(resolve(env={}, flags=flags), [(Part(1000), 1)], GPU, torch.bfloat16).limits.slots


def test_a_share_of_a_gpu_leaves_the_rest_to_others(monkeypatch):
    slot = 1000 + 32 * PAGE_BYTES
    total = 200 * slot
    empty = budget.GpuMemory(total, free=total, taken=0)
    assert on_gpu(monkeypatch, empty, None) == 180  # a tenth is for captured launches
    assert on_gpu(monkeypatch, empty, 0.5) == 90
    weights = budget.GpuMemory(total, free=total - 30 * slot, taken=30 * slot)
    assert on_gpu(monkeypatch, weights, 0.5) == 60
    beside_another = budget.GpuMemory(total, free=total // 2 - 30 * slot, taken=30 * slot)
    assert on_gpu(monkeypatch, beside_another, 0.5) == 60


def test_weights_that_take_the_whole_share_are_an_error_that_says_so(monkeypatch):
    total = 100 * PAGE_BYTES
    with pytest.raises(ConfigError, match=r"50% of this GPU.*memory\.share to more"):
        on_gpu(monkeypatch, budget.GpuMemory(total, free=total // 2, taken=total // 2), 0.5)
