"""Reads what a dummy checkpoint can do from its `config.json`, so that tests have checkpoints of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhapsode.types import ModelInfo


def describe(info: ModelInfo, folder: Path, config: Mapping[str, Any]) -> ModelInfo:
    """Returns the family's abilities, changed by those that the checkpoint lists under `can`."""
    return replace(info, can=replace(info.can, **config.get("can", {})), embedding_size=config.get("embedding_size"))
