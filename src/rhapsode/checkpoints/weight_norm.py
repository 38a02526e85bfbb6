"""Folds weight norm: replaces `weight_g` (magnitude) and `weight_v` (direction) of a convolution by its weight.

`parametrizations.weight.original0` and `original1` are newer names of the same two tensors.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

MAGNITUDE = ".weight_g"
NEWER_NAMES = {".parametrizations.weight.original0": MAGNITUDE, ".parametrizations.weight.original1": ".weight_v"}


def fold_weight_norm(tensors: Mapping[str, Tensor], inside: str = "") -> dict[str, Tensor]:
    """Returns the tensors with `weight` in place of `weight_g` and `weight_v`.

    `inside` is put before the names of these modules' tensors: "conv." gives `layer.conv.weight`.
    """
    tensors = {_older_name(name): tensor for name, tensor in tensors.items()}
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


def _older_name(name: str) -> str:
    for newer, older in NEWER_NAMES.items():
        if name.endswith(newer):
            return name.removesuffix(newer) + older
    return name


def _weight(magnitude: Tensor, direction: Tensor) -> Tensor:
    """Computes the weight in float64, so that a model in float64 has the full precision of the file."""
    return torch._weight_norm(direction.double(), magnitude.double(), 0)
