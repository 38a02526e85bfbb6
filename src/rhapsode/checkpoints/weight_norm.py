"""Folds weight norm: replaces `weight_g` (magnitude) and `weight_v` (direction) of a convolution by its weight."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

MAGNITUDE = ".weight_g"


def fold_weight_norm(tensors: Mapping[str, Tensor], inside: str = "") -> dict[str, Tensor]:
    """Returns the tensors with `weight` in place of `weight_g` and `weight_v`.

    `inside` is put before the names of these modules' tensors: "conv." gives `layer.conv.weight`.
    """
    normed = {name.removesuffix(MAGNITUDE) for name in tensors if name.endswith(MAGNITUDE)}
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        owner, _, leaf = name.rpartition(".")
        if owner not in normed:
            found[name] = tensor
        elif leaf == "weight_v":
            found[f"{owner}.{inside}weight"] = _weight(tensors[owner + MAGNITUDE], tensor)
        elif leaf != "weight_g":
            found[f"{owner}.{inside}{leaf}"] = tensor
    return found


def _weight(magnitude: Tensor, direction: Tensor) -> Tensor:
    """Computes the weight in float64, so that a model in float64 has the full precision of the file."""
    return torch._weight_norm(direction.double(), magnitude.double(), 0)
