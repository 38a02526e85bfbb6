"""The names of tensors, read from the headers of safetensors files. Imports no torch."""

from __future__ import annotations

import json
from pathlib import Path

from rhapsode.errors import CheckpointError

LARGEST_HEADER = 100_000_000
"""Bytes; the safetensors package has the same limit."""


def tensor_names(folder: Path) -> set[str]:
    """Returns the names of all tensors in a folder's safetensors files; none where there are no such files."""
    return {name for path in sorted(folder.glob("*.safetensors")) for name in _names(path)}


def _names(path: Path) -> set[str]:
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size)) if size <= LARGEST_HEADER else None
    except (OSError, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is not a readable safetensors file.")
    return set(header) - {"__metadata__"}
