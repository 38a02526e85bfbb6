"""Zeroed memory is zero, aligned, and not taken from the system before it is written."""

from pathlib import Path

import pytest
import torch

from rhapsode.device.zeros import give_back, zeros


def resident_bytes() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool])
def test_it_is_zero_and_aligned(dtype: torch.dtype) -> None:
    made = zeros((3, 5, 7), dtype, "cpu")
    assert made.shape == (3, 5, 7)
    assert made.dtype == dtype
    assert made.is_contiguous()
    assert made.data_ptr() % 64 == 0
    assert not made.any()
    made[1] = 1
    assert made.sum() == 35


def test_an_empty_tensor_is_possible() -> None:
    assert zeros((0, 4), torch.float32, "cpu").shape == (0, 4)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the resident memory")
def test_memory_that_is_never_written_is_not_resident() -> None:
    before, size = resident_bytes(), 2**28
    made = zeros((size,), torch.uint8, "cpu")
    made[: 2**20] = 1
    assert resident_bytes() - before < size // 8


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the resident memory")
def test_memory_that_is_given_back_is_not_resident_and_its_neighbours_are_as_they_were() -> None:
    before, part = resident_bytes(), 2**24 + 1000
    made = zeros((3, part), torch.uint8, "cpu")
    made[:] = 1
    assert resident_bytes() - before > 2.9 * part
    give_back(made[1])
    assert resident_bytes() - before < 2.1 * part
    assert made[0].all()
    assert made[2].all()
    made[1] = 2
    assert made.sum() == 4 * part
