"""The golden checkpoint and a tiny one, written once per run."""

from pathlib import Path

import pytest
import torch

from tiny.voxtral_tts import Tiny, write
from unit.voxtral_tts.asked import Family, write_golden


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_golden(tmp_path_factory.mktemp("voxtral") / "golden")


@pytest.fixture(scope="session")
def family(golden_folder: Path) -> Family:
    return Family.open(golden_folder)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as released: without an encoder."""
    folder = tmp_path_factory.mktemp("voxtral") / "tiny"
    write(folder, Tiny())
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Family:
    return Family.open(tiny_folder)
