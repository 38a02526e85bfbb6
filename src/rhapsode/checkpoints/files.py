"""Reads single weight files: safetensors, or a pickle that may contain tensors only, so that no code is executed."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rhapsode.errors import CheckpointError


def read_file(path: Path) -> dict[str, Tensor]:
    """Returns all tensors of a file, in memory."""
    return _safetensors(path) if path.suffix == ".safetensors" else _pickled(path)


def read_tensor(path: Path) -> Tensor:
    """Returns the one tensor that a pickle holds."""
    content = unpickle(path)
    if not isinstance(content, Tensor):
        raise CheckpointError(f"{path} must hold one tensor, not {type(content).__name__}.")
    return content


def first_of(folder: Path, *names: str) -> Path:
    """Returns the first of these files that exists."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise CheckpointError(f"{folder} holds neither {' nor '.join(names)}.")


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}") from None


def unpickle(path: Path) -> Any:
    """Returns the content of a pickle. It may hold only tensors and plain containers, so no code is executed."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path} is not a file of plain tensors: {reason}") from None


def _pickled(path: Path) -> dict[str, Tensor]:
    content = unpickle(path)
    tensors = _inside(content)
    if not isinstance(tensors, Mapping) or not all(isinstance(t, Tensor) for t in tensors.values()):
        raise CheckpointError(f"{path} must hold tensors by name.")
    return dict(tensors)


def _inside(content: Any) -> Any:
    """Returns the tensors of a pickle, which may be inside a mapping, and there in a list of one."""
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping | list):
            content = content[key]
    return content[0] if isinstance(content, list) and len(content) == 1 else content
