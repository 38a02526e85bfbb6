"""Which weights exactly were measured."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from pathlib import Path

from rhapsode.models.packaged import packaged_name
from rhapsode.models.registry import Model

FILES = (".safetensors", ".bin", ".pt", ".pth", ".onnx", ".json", ".yaml", ".yml", ".txt", ".model", ".npz")
"""Weights, voices, configuration and vocabulary."""
_SNAPSHOT = re.compile(r"snapshots/([0-9a-f]{40})(?:/|$)")
_BLOCK = 2**22


@dataclass(frozen=True)
class Identity:
    """A checkpoint, told apart from every other one."""

    name: str
    family: str
    variant: str
    revision: str
    """The commit on the hub, or the package and its version; for any other folder `sha256:` and the digest."""
    sha256: str
    """Of the names and contents of all files that matter; empty for a family without a checkpoint."""


def identify(name: str, model: Model) -> Identity:
    info = model.info()
    if model.checkpoint is None:
        return Identity(info.title, info.family, info.variant, _package_of(model), "")
    digest = digest_of(model.checkpoint)
    found = _SNAPSHOT.search(model.checkpoint.as_posix())
    is_named = found is not None or name == model.spec.name  # a hub id, or a family whose checkpoint is installed
    given = packaged_name(model.checkpoint) or (name if is_named else model.checkpoint.resolve().name)
    return Identity(given, info.family, info.variant, found[1] if found else f"sha256:{digest[:16]}", digest)


def digest_of(folder: Path) -> str:
    """Returns the SHA-256 of a checkpoint's files, in the order of their names."""
    digest = hashlib.sha256()
    for path in files_of(folder):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def files_of(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in FILES and not any(part.startswith(".") for part in _parts(path, folder)):
            yield path


def slug(name: str) -> str:
    """Returns the name as part of a file's name."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "checkpoint"


def _parts(path: Path, folder: Path) -> tuple[str, ...]:
    return path.relative_to(folder).parts


def _package_of(model: Model) -> str:
    module = model.spec.requires[0] if model.spec.requires else "rhapsode"
    names = packages_distributions().get(module, [module])
    try:
        return f"{names[0]} {version(names[0])}"
    except ModuleNotFoundError:  # PackageNotFoundError: it runs from its source
        from rhapsode import __version__

        return f"rhapsode {__version__}"
