"""Golden and tiny checkpoints, written once per run."""

from pathlib import Path

import pytest

from tiny.higgs import Tiny, write
from unit.higgs.asked import FULL, Family, unpack, unpack_original


def _golden(generation: int, folder: Path) -> Path:
    return Path(FULL) / f"higgs-v{generation}" / "checkpoint" if FULL else unpack(generation, folder)


@pytest.fixture(scope="session")
def v2(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return Family.open(2, _golden(2, tmp_path_factory.mktemp("higgs-v2")))


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Family:
    folder = unpack_original(tmp_path_factory.mktemp("higgs-original"))
    return Family.open(2, Path(FULL) / "higgs-v2" / "checkpoint-original" if FULL else folder)


@pytest.fixture(scope="session")
def v3(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return Family.open(3, _golden(3, tmp_path_factory.mktemp("higgs-v3")))


@pytest.fixture(scope="session")
def tiny_v2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint made from seeds, which sometimes decides to end."""
    return write(tmp_path_factory.mktemp("tiny-v2"), Tiny(end_gain=0.5))


@pytest.fixture(scope="session")
def tiny_v3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tiny-v3"), Tiny(generation=3, end_gain=1.3, seed=2))
