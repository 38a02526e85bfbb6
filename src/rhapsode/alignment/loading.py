"""Finds the acoustic model of a deployment."""

from __future__ import annotations

from pathlib import Path

from rhapsode.alignment.model import Acoustic
from rhapsode.checkpoints.folder import read_config

PACKAGED_LANGUAGE = "en"
"""Of the acoustic model that the package contains."""


def aligned_languages(folder: Path | None) -> tuple[str, ...]:
    """Returns the languages that the acoustic model of a deployment knows, without loading it."""
    return (str(read_config(folder.expanduser())["language"]),) if folder else (PACKAGED_LANGUAGE,)


def load_acoustic(folder: Path | None) -> Acoustic:
    """Loads the acoustic model of a folder, or the one that the package contains."""
    from rhapsode.alignment.acoustic import ENGLISH, AcousticModel  # torch takes long to import

    return AcousticModel.load(folder.expanduser() if folder else ENGLISH)
