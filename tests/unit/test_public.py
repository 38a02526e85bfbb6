"""What users may import, and how little that costs."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import rhapsode as package
from unit.command import environment, python, rhapsode

HEAVY = {"torch", "numpy", "av", "soxr", "sentencex", "hibari"}


def test_the_public_names_are_these() -> None:
    assert sorted(package.__all__) == [
        "Audio",
        "AudioChunk",
        "Reference",
        "RhapsodeError",
        "Sampling",
        "Segment",
        "SpeechRequest",
        "TTS",
        "Voice",
        "WordTime",
        "__version__",
    ]


@pytest.mark.parametrize("name", package.__all__)
def test_every_public_name_is_there(name: str) -> None:
    found = getattr(package, name)
    assert name == "__version__" or found.__name__ == name


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Engine'"):
        _ = package.Engine


def test_star_import_brings_the_public_names(tmp_path: Path) -> None:
    printed = python("from rhapsode import *; print(TTS.__name__, SpeechRequest('Hi.').speed)", tmp_path)
    assert printed.split() == ["TTS", "1.0"]


def test_importing_the_package_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = set(python("import rhapsode, sys; print(*sys.modules)", tmp_path).split())
    assert "rhapsode" in loaded
    assert not loaded & HEAVY


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "rhapsode", "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    loaded = set(re.findall(r"^import time:.*\|\s*(\S+)$", done.stderr, re.MULTILINE))
    assert "rhapsode.cli.main" in loaded
    assert not loaded & HEAVY


def test_help_lists_the_commands(tmp_path: Path) -> None:
    done = rhapsode("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in ("say", "models", "doctor"):
        assert re.search(rf"^\W*{command}\s+\w", done.stdout.decode(), re.MULTILINE)


def test_help_of_a_command_names_its_options(tmp_path: Path) -> None:
    shown = rhapsode("say", "--help", cwd=tmp_path).stdout.decode()
    for option in ("--file", "--output", "--model", "--voice", "--speed", "--seed", "--option", "--stream"):
        assert option in shown


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert package.__version__ == version("rhapsode")
    assert rhapsode("--version", cwd=tmp_path).stdout.decode().strip() == f"rhapsode {package.__version__}"
