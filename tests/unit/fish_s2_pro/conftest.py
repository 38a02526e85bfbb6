"""Tiny checkpoints, written once per run."""

from pathlib import Path

import pytest

from tiny.fish_s2_pro import Tiny, write
from unit.fish_s2_pro.asked import FULL, Family, unpack


@pytest.fixture(scope="session")
def golden_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint that the goldens were made with."""
    return Path(FULL) / "checkpoint" if FULL else unpack(tmp_path_factory.mktemp("fish-golden"))


@pytest.fixture(scope="session")
def family(golden_checkpoint: Path) -> Family:
    return Family.open(golden_checkpoint)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint made from seeds."""
    folder = tmp_path_factory.mktemp("fish-tiny")
    write(folder, Tiny(end_gain=1.3, seed=1))
    return folder
