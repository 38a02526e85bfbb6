"""What a checkpoint is: its T3, and the sizes of it. No file says so; names and shapes of tensors do.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.folder import section
from rhapsode.errors import CheckpointError
from rhapsode.models.chatterbox.t3.sizes import T3Sizes, given_sizes, read_sizes
from rhapsode.models.chatterbox.variants import Kind, Variant, choose

SHAPE = "chatterbox.json"
"""Sizes without weights, for measurements: no published checkpoint has this file."""


@dataclass(frozen=True)
class ChatterboxConfig:
    """One variant of a checkpoint."""

    variant: Variant
    t3: T3Sizes

    @property
    def kind(self) -> Kind:
        return self.variant.kind

    @property
    def file(self) -> Path:
        """The weights of T3."""
        return self.variant.file


def read(values: Mapping[str, Any], folder: Path, wanted: str) -> ChatterboxConfig:
    """Returns the configuration of the variant that a deployment wants: see `variants.choose`.

    `values` is the content of `chatterbox.json`, or nothing.
    """
    if values:
        return _given(values, folder)
    variant = choose(folder, wanted)
    sizes = read_sizes(variant.file)
    if sizes.gpt2 != variant.kind.is_turbo:
        layers = "GPT-2" if sizes.gpt2 else "Llama"
        raise CheckpointError(f"{variant.file} has the layers of {layers}, which a {variant.kind.value} T3 has not.")
    return ChatterboxConfig(variant, sizes)


def _given(values: Mapping[str, Any], folder: Path) -> ChatterboxConfig:
    known = [kind.value for kind in Kind]
    if values.get("kind") not in known:
        raise CheckpointError(f"'kind' of {folder / SHAPE} must be one of {', '.join(known)}.")
    sizes = given_sizes(section(values, "t3", SHAPE), f"'t3' of {SHAPE}")
    return ChatterboxConfig(Variant(folder / SHAPE, Kind(values["kind"])), sizes)
