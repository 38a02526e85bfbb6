"""Processes that compile together compile each kernel once."""

import os
from pathlib import Path

import pytest

from rhapsode.device.compile_only import claim

NAMES = [f"_kernel{number}" for number in range(40)]


def test_a_kernel_belongs_to_the_first_process_that_claims_it(tmp_path: Path) -> None:
    assert claim(tmp_path, "_rows(bf16)")
    assert not claim(tmp_path, "_rows(bf16)")
    assert claim(tmp_path, "_rows(fp32)")


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_processes_that_claim_the_same_kernels_share_them(tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    children = []
    for number in range(3):
        child = os.fork()
        if not child:
            mine = [name for name in NAMES if claim(tmp_path / "claims", name)]
            (tmp_path / str(number)).write_text("\n".join(mine))
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    claimed = [name for number in range(3) for name in (tmp_path / str(number)).read_text().split()]
    assert sorted(claimed) == sorted(NAMES)
