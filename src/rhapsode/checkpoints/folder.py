"""A checkpoint's folder: its configuration files, read into typed objects. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from rhapsode.checkpoints.audit import note_keys
from rhapsode.errors import CheckpointError

T = TypeVar("T")
LARGEST_NUMBER = 2**24
"""The largest size, id or position that a configuration may have; published models stay far below it."""


def as_folder(name: str) -> Path | None:
    """Returns the folder that a user calls by this name, if there is one."""
    try:
        folder = Path(name).expanduser()
        return folder if folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, the home of an unknown user
        return None


def read_config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Returns the content of a checkpoint's configuration file: JSON, or YAML whose custom tags are kept as data."""
    if not (folder / name).is_file():
        raise CheckpointError(f"{folder} holds no {name}: it is not a checkpoint's folder.")
    if name.endswith((".yaml", ".yml")):
        from rhapsode.checkpoints.tagged_yaml import read_tagged_yaml  # few checkpoints need YAML

        return read_tagged_yaml(folder / name)
    return read_json(folder / name)


def read_json(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} holds no {path.name}.") from None
    except (OSError, ValueError, RecursionError):
        raise CheckpointError(f"{path} is not readable JSON.") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold one JSON object.")
    return content


def parse(into: type[T], values: Mapping[str, Any], where: str) -> T:
    """Returns the dataclass `into`, filled from the keys that are its fields. Other keys are ignored.

    A key of another type is an error, and so is a missing key whose field has no default.
    """
    types = get_type_hints(into)
    note_keys(where, values, types)
    found: dict[str, Any] = {}
    for field in fields(into):  # type: ignore[arg-type]
        wanted, value = types[field.name], values.get(field.name)
        # A null in an upstream file means the default, unless the type of the field allows None.
        if value is not None or (field.name in values and NoneType in get_args(wanted)):
            found[field.name] = _typed(value, wanted, f"'{field.name}' of {where}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise CheckpointError(f"'{field.name}' is missing from {where}.")
    return into(**found)


def section(values: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    """Returns the object under a key of a configuration."""
    found = values.get(name)
    if not isinstance(found, Mapping):
        raise CheckpointError(f"'{name}' is missing from {where}.")
    return found


def _typed(value: Any, wanted: Any, what: str) -> Any:
    if NoneType in get_args(wanted):
        if value is None:
            return None
        wanted = next(kind for kind in get_args(wanted) if kind is not NoneType)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    kind = get_origin(wanted) or wanted
    if kind is tuple and isinstance(value, list):
        return tuple(value)
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise CheckpointError(f"{what} is too large: {str(value)[:40]}.")
    if kind is Mapping and isinstance(value, dict):
        return value
    if isinstance(kind, type) and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise CheckpointError(f"{what} must be a {kind.__name__}, not {value!r}.")
    return value
