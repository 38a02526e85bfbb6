"""What a checkpoint is: its T3, and the sizes of it. No file says so; names and shapes of tensors do.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.folder import section
from rhapsode.checkpoints.outline import TensorOutline
from rhapsode.errors import CheckpointError
from rhapsode.models.chatterbox.t3.sizes import T3Sizes, read_sizes, sizes_of
from rhapsode.models.chatterbox.variants import Kind, Variant, choose

SHAPE = "chatterbox.json"
"""Shapes of tensors without weights, for measurements: no published checkpoint has this file."""


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
        kind = values.get("kind")
        if kind not in list(Kind):
            raise CheckpointError(f"'kind' of {folder / SHAPE} must be one of {', '.join(Kind)}.")
        return ChatterboxConfig(Variant(folder / SHAPE, Kind(kind)), sizes_of(outline(values, folder, "t3")))
    variant = choose(folder, wanted)
    sizes = read_sizes(variant.file)
    if sizes.gpt2 != variant.kind.is_turbo:
        layers = "GPT-2" if sizes.gpt2 else "Llama"
        raise CheckpointError(f"{variant.file} has the layers of {layers}, which a {variant.kind.value} T3 has not.")
    return ChatterboxConfig(variant, sizes)


def outline(values: Mapping[str, Any], folder: Path, name: str) -> TensorOutline:
    """Returns the shapes that `chatterbox.json` lists for one file: `t3`, `s3gen` or `ve`."""
    return TensorOutline(folder / SHAPE, section(section(values, "tensors", SHAPE), name, f"'tensors' of {SHAPE}"))
