"""What an engine is built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Source:
    """What the stages are built from: the folder of a checkpoint, and its `config.json` as a dictionary."""

    checkpoint: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    endless: bool = False
    """No request ends by itself, whatever the weights are: a measurement needs fixed frame counts."""
