"""Tiny checkpoints, written once per run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tiny.qwen3_tts import Tiny, write
from unit.qwen3_tts.asked import INDEX, Family


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a checkpoint the goldens were made with, by its name there."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            known = INDEX["checkpoints"][name]
            assert write(made[name], Tiny(**known["recipe"])) == known["fingerprint"], "the goldens are stale"
        return made[name]

    return get


@pytest.fixture(scope="session")
def family(checkpoint: Callable[[str], Path]) -> Callable[[str], Family]:
    """The stages of such a checkpoint."""
    made: dict[str, Family] = {}

    def get(name: str) -> Family:
        if name not in made:
            made[name] = Family.open(checkpoint(name))
        return made[name]

    return get
