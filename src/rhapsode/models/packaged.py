"""Checkpoints that are part of this package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import rhapsode.models

PACKAGED: Mapping[str, Path] = {"rhapsode-nano": Path(rhapsode.models.__path__[0]).parent / "nano"}
"""The folders of these checkpoints, by name."""


def packaged_name(folder: Path | None) -> str:
    """Returns the name of the packaged checkpoint in a folder; empty for any other."""
    return next((name for name, place in PACKAGED.items() if place == folder), "")
