"""Tiny checkpoints, written once per run."""

from pathlib import Path

import pytest

from tiny.cosyvoice3 import TinyCosyVoice, write
from unit.cosyvoice3.asked import Family, unpack


@pytest.fixture(scope="session")
def golden_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The language model that upstream's results were made with."""
    return unpack(tmp_path_factory.mktemp("cosy-golden"))


@pytest.fixture(scope="session")
def family(golden_checkpoint: Path) -> Family:
    return Family.open(golden_checkpoint)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint made from seeds."""
    return write(tmp_path_factory.mktemp("cosy-tiny"), TinyCosyVoice(end_gain=1.5, rl=True))
