"""Blocks on the way to a GPU and back, on a GPU that is only pretended: copies move bytes at once and end when told."""

import ctypes
from collections import defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rhapsode.device import host_blocks

DEVICE = torch.device("cuda", 0)


class Event:
    """Stands for a `CudaEvent`."""

    def __init__(self, device):
        self.is_pending = False

    def record(self):
        self.is_pending = True

    def is_past(self):
        return not self.is_pending


@pytest.fixture(autouse=True)
def pretended(monkeypatch):
    calls = SimpleNamespace(CudaEvent=Event, copy=lambda target, source, n, device: ctypes.memmove(target, source, n))
    memory = SimpleNamespace(empty=lambda n, dtype, pin_memory: torch.empty(n, dtype=dtype), uint8=torch.uint8)
    monkeypatch.setattr(host_blocks, "cuda_calls", calls)
    monkeypatch.setattr(host_blocks, "torch", memory)
    monkeypatch.setattr(host_blocks, "_free", defaultdict(deque))


def ended(block):
    block._copied.is_pending = False


def test_values_go_to_a_tensor_and_come_back():
    block, values = host_blocks.take(48, DEVICE), np.arange(6, dtype=np.int64).reshape(2, 3)
    target = torch.zeros(2, 3, dtype=torch.int64)
    block.bytes[: values.nbytes] = values.reshape(-1).view(np.uint8).data
    block.copy_to(target)
    assert target.tolist() == values.tolist()
    block.copy_from(target * 2)
    assert block.array((2, 3), values.dtype).tolist() == (values * 2).tolist()


def test_what_is_written_into_a_block_is_sent():
    target = torch.zeros(3, dtype=torch.uint8)

    def write(held):
        held[:3] = b"abc"

    host_blocks.send(target, write)
    assert bytes(target.tolist()) == b"abc"
    assert len(host_blocks._free) == 1


def test_a_block_is_used_again_only_after_its_copy():
    block = host_blocks.take(100, DEVICE)
    block.copy_to(torch.zeros(100, dtype=torch.uint8))
    host_blocks.give_back(block)
    other = host_blocks.take(100, DEVICE)
    assert other is not block
    ended(block)
    assert host_blocks.take(100, DEVICE) is block


def test_one_that_is_still_copied_does_not_hide_the_others():
    slow, quick = (host_blocks.take(100, DEVICE) for _ in range(2))
    for block in (slow, quick):
        block.copy_to(torch.zeros(100, dtype=torch.uint8))
        host_blocks.give_back(block)
    ended(quick)
    found = [host_blocks.take(100, DEVICE) for _ in range(2)]
    assert quick in found
    assert slow not in found


@pytest.mark.parametrize(("nbytes", "size"), [(0, 4096), (4096, 4096), (4097, 8192), (3_000_000, 1 << 22)])
def test_sizes_are_few(nbytes, size):
    block = host_blocks.take(nbytes, DEVICE)
    assert len(block) == size
    host_blocks.give_back(block)
    assert host_blocks.take(size, DEVICE) is block
