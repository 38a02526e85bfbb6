"""Which T3 a checkpoint's folder has, and which of them a deployment runs. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from rhapsode.errors import CheckpointError, ConfigError, did_you_mean
from rhapsode.models.chatterbox.spec import PATTERNS


class Kind(StrEnum):
    """What a T3 speaks, and how it was trained."""

    ORIGINAL = "original"
    MULTILINGUAL = "multilingual"
    TURBO = "turbo"
    NANO = "nano"

    @property
    def is_turbo(self) -> bool:
        """Whether its layers are those of GPT-2: no guidance, no exaggeration, and tags in the text."""
        return self in (Kind.TURBO, Kind.NANO)


KINDS = {"t3_cfg*": Kind.ORIGINAL, "t3_turbo*": Kind.TURBO, "t3_nano*": Kind.NANO, "t3_*": Kind.MULTILINGUAL}
"""By the names of files. A name that is not known is a multilingual one, tuned for a language."""
PREFERRED = ("t3_cfg", "t3_turbo_v1", "t3_nano_v1", "t3_mtl23ls_v2", "t3_mtl23ls_v3")
"""The order in which one is chosen where a deployment names none: of two multilingual ones, upstream's default."""


@dataclass(frozen=True)
class Variant:
    """One T3 of a checkpoint."""

    file: Path
    kind: Kind

    @property
    def name(self) -> str:
        return self.file.stem


def variants_in(folder: Path) -> tuple[Variant, ...]:
    """Returns the variants of a folder, the preferred one first; of two files of a name, the safetensors."""
    files = {file.stem: file for pattern in reversed(PATTERNS) for file in sorted(folder.glob(pattern))}
    names = sorted(files, key=lambda name: (PREFERRED.index(name) if name in PREFERRED else len(PREFERRED), name))
    return tuple(Variant(files[name], kind_of(name)) for name in names)


def kind_of(name: str) -> Kind:
    """Returns the kind of a T3, by the name of its file."""
    return next(kind for pattern, kind in KINDS.items() if fnmatchcase(name, pattern))


def choose(folder: Path, wanted: str) -> Variant:
    """Returns the variant that a deployment's `t3` names: `auto`, a kind, or the name of a file."""
    found = variants_in(folder)
    if not found:
        raise CheckpointError(f"{folder} holds no {' and no '.join(PATTERNS)}.")
    if wanted == "auto":
        return found[0]
    for variant in found:
        if wanted.removesuffix(variant.file.suffix) in (variant.name, variant.kind.value):
            return variant
    raise ConfigError(f"t3: {folder} has no '{wanted}': {did_you_mean(wanted, _names(found))}", param="t3")


def _names(found: Iterable[Variant]) -> list[str]:
    return list(dict.fromkeys(name for variant in found for name in (variant.kind.value, variant.name)))
