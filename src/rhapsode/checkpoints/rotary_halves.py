"""Reorders the channels of queries and keys from adjacent rotary pairs to halves."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.checkpoints.weights import ChangedTensors, Tensors


class RotaryRows(NamedTuple):
    """The first rows of a tensor, which are channels of heads that the rotary embedding rotates."""

    rows: int
    head_dim: int


class RotaryHalves(ChangedTensors):
    """Tensors of a checkpoint that rotates channels 2i and 2i + 1, for modules that rotate channels i and i + D / 2.

    Queries and keys meet only in dot products, so any order of their channels gives the same result.
    """

    def __init__(self, tensors: Tensors, rotated: Mapping[str, RotaryRows]) -> None:
        """`rotated`: for each shell pattern of tensor names, which rows of the matching tensors are reordered."""
        super().__init__(tensors)
        self._rotated = rotated

    def read(self, name: str) -> Tensor:
        tensor = super().read(name)
        for pattern, (rows, head_dim) in self._rotated.items():
            if fnmatchcase(name, pattern):
                heads = tensor[:rows].unflatten(0, (-1, head_dim))
                halves = torch.cat((heads[:, 0::2], heads[:, 1::2]), dim=1).flatten(0, 1)
                return torch.cat((halves, tensor[rows:]))
        return tensor
