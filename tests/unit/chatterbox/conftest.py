"""Tiny checkpoints, written once per run."""

from pathlib import Path

import pytest

from tiny.chatterbox import MULTILINGUAL, ORIGINAL, TURBO, write


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the original and a multilingual T3."""
    return write(tmp_path_factory.mktemp("chatterbox"), ORIGINAL, MULTILINGUAL)


@pytest.fixture(scope="session")
def turbo_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("chatterbox-turbo"), TURBO)
