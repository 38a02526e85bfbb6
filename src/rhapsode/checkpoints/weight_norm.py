"""Folds weight norm: replaces the magnitude and the direction of a convolution's weight by the weight itself."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

SPELLINGS = (
    (".weight_g", ".weight_v"),
    (".parametrizations.weight.original0", ".parametrizations.weight.original1"),
)
"""What the two functions of PyTorch call magnitude and direction."""


def fold_weight_norm(tensors: Mapping[str, Tensor], inside: str = "") -> dict[str, Tensor]:
    """Returns the tensors with one `weight` in place of magnitude and direction.

    `inside` is put before the names of these modules' tensors: "conv." gives `layer.conv.weight`.
    """
    magnitudes = {
        name.removesuffix(magnitude): (name, direction)
        for name in tensors
        for magnitude, direction in SPELLINGS
        if name.endswith(magnitude) and name.removesuffix(magnitude) + direction in tensors
    }
    found = dict(tensors)
    for owner, (magnitude, direction) in magnitudes.items():
        found[f"{owner}.{inside}weight"] = _weight(found.pop(magnitude), found.pop(owner + direction))
        if inside and f"{owner}.bias" in found:
            found[f"{owner}.{inside}bias"] = found.pop(f"{owner}.bias")
    return found


def _weight(magnitude: Tensor, direction: Tensor) -> Tensor:
    """Computes the weight in float64, so that a model in float64 has the full precision of the file."""
    return torch._weight_norm(direction.double(), magnitude.double(), 0)
