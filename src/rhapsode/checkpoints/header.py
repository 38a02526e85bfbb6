"""Names, types and shapes of tensors, read from the headers of safetensors files. Imports no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rhapsode.errors import CheckpointError

LARGEST_HEADER = 100_000_000
"""Bytes; the safetensors package has the same limit."""


def tensor_names(folder: Path) -> set[str]:
    """Returns the names of all tensors in a folder's safetensors files; none where there are no such files."""
    return {name for path in sorted(folder.glob("*.safetensors")) for name in _header(path)}


def tensor_shapes(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Returns the type, such as `BF16`, and the shape of every tensor of a file."""
    return {name: (str(said.get("dtype")), list(said.get("shape", ()))) for name, said in _header(path).items()}


def _header(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size)) if size <= LARGEST_HEADER else None
    except (OSError, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is not a readable safetensors file.")
    return {name: said for name, said in header.items() if name != "__metadata__"}
