"""The golden checkpoint, written once per run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from unit.kokoro.golden import unpack


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint that upstream's results were made with."""
    return unpack(tmp_path_factory.mktemp("kokoro") / "golden")


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield
