"""Convolutions as training leaves them, a direction and a length for each output, made plain."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

LENGTH, DIRECTION = ".weight_g", ".weight_v"


def plain(tensors: Mapping[str, Tensor], inside: str = "") -> dict[str, Tensor]:
    """The same tensors with `weight` in place of `weight_g` and `weight_v`; `inside` is put before the names of these
    modules' tensors, as in `layer.conv.weight`."""
    normed = {name.removesuffix(LENGTH) for name in tensors if name.endswith(LENGTH)}
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        owner, _, leaf = name.rpartition(".")
        if owner not in normed:
            found[name] = tensor
        elif leaf == "weight_v":
            found[f"{owner}.{inside}weight"] = _weight(tensors[owner + LENGTH], tensor)
        elif leaf != "weight_g":
            found[f"{owner}.{inside}{leaf}"] = tensor
    return found


def _weight(length: Tensor, direction: Tensor) -> Tensor:
    """In float64, so that who computes in float64 gets what is in the file."""
    return torch._weight_norm(direction.double(), length.double(), 0)
