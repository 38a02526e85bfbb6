"""What the host does when requests join takes no longer because the GPU is busy."""

import time

import pytest
import torch

from rhapsode.device.kv import KVLayout
from rhapsode.device.launch_times import LaunchTimes
from rhapsode.device.memory import SlotMemory
from rhapsode.device.slots import SlotRow, SlotTable
from rhapsode.device.state import State
from rhapsode.sampling_table import Sampling

pytestmark = pytest.mark.gpu

CYCLES = 400_000_000
SAMPLING = Sampling(temperature=0.9, top_k=50, top_p=1.0, repetition_penalty=1.05)
"""A fifth of a second on any GPU of today."""


@pytest.fixture
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return torch.device("cuda")


def busy(work):
    """Milliseconds that `work` takes while the GPU has a launch that takes 200 ms, after a first time without it."""
    work()
    torch.cuda.synchronize()
    torch.cuda._sleep(CYCLES)
    started_s = time.perf_counter()
    work()
    took_ms = (time.perf_counter() - started_s) * 1e3
    assert not torch.cuda.current_stream().query()
    return took_ms


def test_rows_join_without_waiting(gpu):
    table = SlotTable(64, 256, gpu)
    rows = [SlotRow(slot=i, seed=i, pages=range(1, 5), sampling=SAMPLING) for i in range(64)]
    assert busy(lambda: table.join(rows)) < 50
    assert table.pages[3, :5].tolist() == [1, 2, 3, 4, 0]


def test_launches_are_timed_without_waiting(gpu):
    times = LaunchTimes(gpu)

    def launch():
        with times.measured(16):
            torch.cuda._sleep(CYCLES // 10)
        assert times.in_flight

    assert busy(launch) < 50
    torch.cuda.synchronize()
    assert times.in_flight == 0
    assert 0.001 < times.expected_s(16) < 0.2


def test_rows_join_by_a_captured_launch_without_waiting(gpu):
    memory = SlotMemory(64, [KVLayout(1, 1, 8)], State(), gpu, torch.float32, page_size=4, positions_per_slot=16)
    with torch.inference_mode():
        memory.capture()
        rows = [SlotRow(slot=i, seed=i, pages=range(1, 4), sampling=SAMPLING) for i in range(64)]
        assert busy(lambda: memory.join(rows[:3])) < 50
        assert busy(lambda: memory.join(rows)) < 50
        assert memory.table.pages[3].tolist() == [1, 2, 3, 0]
        assert memory.table.seed.tolist() == [*range(64), 0]
