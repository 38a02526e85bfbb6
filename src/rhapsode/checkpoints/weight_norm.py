"""Folds weight norm: replaces the magnitude and the direction of a convolution by its weight."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

NAMES = ((".weight_g", ".weight_v"), (".parametrizations.weight.original0", ".parametrizations.weight.original1"))
"""Magnitude and direction, in the names of torch's first and second implementation."""


def fold_weight_norm(tensors: Mapping[str, Tensor], inside: str = "") -> dict[str, Tensor]:
    """Returns the tensors with `weight` in place of magnitude and direction.

    `inside` is put between the name of a convolution and those of its tensors: "conv." gives `layer.conv.weight`.
    """
    folded: dict[str, Tensor] = {}
    used: set[str] = set()
    for magnitude, direction in NAMES:
        for name in tensors:
            owner = name.removesuffix(magnitude)
            if owner != name and owner + direction in tensors:
                folded[owner] = _weight(tensors[name], tensors[owner + direction])
                used |= {name, owner + direction}
    found = {f"{owner}.{inside}weight": weight for owner, weight in folded.items()}
    for name, tensor in tensors.items():
        owner, _, leaf = name.rpartition(".")
        if name not in used:
            found[f"{owner}.{inside}{leaf}" if owner in folded else name] = tensor
    return found


def _weight(magnitude: Tensor, direction: Tensor) -> Tensor:
    """Computes the weight in float64, so that a model in float64 has the full precision of the file.

    The magnitude has one value for each index of the axis that is not normalised over, usually the first axis.
    """
    axis = next((axis for axis, size in enumerate(magnitude.shape) if size > 1), 0)
    return torch._weight_norm(direction.double(), magnitude.double(), axis)
