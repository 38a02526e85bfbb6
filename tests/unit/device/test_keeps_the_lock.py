"""What the device loop does in a turn does not give Python's lock away: another thread would keep it for 5 ms."""

import sys
import threading
import time

import numpy as np
import pytest
import torch

from rhapsode.device import host_blocks
from rhapsode.device.cuda_calls import CudaEvent
from rhapsode.device.host_copies import copy_into
from rhapsode.device.landing import Landing
from rhapsode.device.launcher import Launcher
from rhapsode.device.row_writes import RowWrites
from rhapsode.device.upload import fill, upload
from rhapsode.engine.pcm16 import unpacked

SWITCH_S = 0.1
MOST = 2
"""Losses of eight that a busy machine may cause."""


@pytest.fixture
def hungry():
    """A thread that takes the lock whenever it can, and keeps it for 100 ms."""
    before, ended = sys.getswitchinterval(), threading.Event()

    def spin():
        while not ended.is_set():
            pass

    thread = threading.Thread(target=spin, daemon=True)
    sys.setswitchinterval(SWITCH_S)
    thread.start()
    yield
    ended.set()
    sys.setswitchinterval(before)
    thread.join()


def losses(work, times=8):
    """How often the lock was given away: each time costs the switch interval."""
    work()
    lost = 0
    for _ in range(times):
        time.sleep(0.001)  # whoever waits for the lock has it from here on, and its time begins anew
        started_s = time.perf_counter()
        work()
        lost += time.perf_counter() - started_s > SWITCH_S / 2
    return lost


def test_copies_on_the_host(hungry):
    samples, kept = np.ones((1, 200_001), np.int16), np.empty((1, 200_000), np.int16)
    assert losses(lambda: unpacked(samples, 0, 200_000)) <= MOST
    assert losses(lambda: copy_into(kept, samples[:, :-1])) <= MOST


@pytest.fixture
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return torch.device("cuda", torch.cuda.current_device())


@pytest.mark.gpu
def test_launches_and_copies(gpu, hungry):
    table = torch.zeros(65, 64, device=gpu)

    def add(inputs):
        table[inputs[:, 0]] += 1.0
        return (table[inputs[:, 0]] > 0).to(torch.uint8)

    def write(target, slots, values):
        target[slots] = values

    with torch.inference_mode():
        launcher, writes = Launcher(add, 64, gpu), RowWrites(write, gpu)
        launcher.capture(64)
        writes.capture(table, np.array([64]), np.zeros((1, 64), np.float32))
        landings = []

        def turn():
            for rows in (3, 40):
                writes(table, np.arange(rows), np.zeros((rows, 64), np.float32))
                landings.append(Landing(launcher(np.arange(rows)[:, None])))
                event = CudaEvent(gpu, timed=True)
                event.record()
                event.hold_back()
            while landings and landings[0].ready():
                landings.pop(0).end()

        assert losses(turn) <= MOST
        torch.cuda.synchronize()
        assert table[:40].eq(1).all()


@pytest.mark.gpu
def test_values_come_back_as_they_went(gpu):
    chance = np.random.default_rng(0)
    for shape, dtype in (((3, 5), np.int16), ((0, 4), np.int64), ((7,), np.float32), ((2, 3, 4), np.bool_)):
        values = chance.integers(0, 2, shape).astype(dtype)
        for kept in (values, values[::-1]):
            landing = Landing(upload(kept, gpu))
            assert np.array_equal(landing.numpy(), kept)
            assert landing.numpy().dtype == dtype
            landing.end()
    target = torch.zeros(4, 6, dtype=torch.int64, device=gpu)
    fill(target, np.arange(24).reshape(4, 6))
    assert Landing(target[:, ::2]).numpy().tolist() == np.arange(24).reshape(4, 6)[:, ::2].tolist()


@pytest.mark.gpu
def test_a_block_is_used_again_only_after_its_copy(gpu):
    torch.cuda.synchronize()
    block = host_blocks.take(1 << 20, gpu)
    torch.cuda._sleep(200_000_000)
    block.copy_to(torch.empty(1 << 20, dtype=torch.uint8, device=gpu))
    host_blocks.give_back(block)
    other = host_blocks.take(1 << 20, gpu)
    assert other is not block
    torch.cuda.synchronize()
    host_blocks.give_back(other)
    assert host_blocks.take(1 << 20, gpu) in (block, other)
