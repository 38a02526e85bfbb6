"""Reads query and key projections that rotate adjacent channels as if they rotated halves, as `nn.rope` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from torch import Tensor

from rhapsode.checkpoints.weights import Tensors


class HalfSplitRotary:
    """Tensors of which those with names like `patterns` have the rows of each head reordered: even channels first."""

    def __init__(self, tensors: Tensors, patterns: Sequence[str], head_dim: int) -> None:
        self.folder = tensors.folder
        self._tensors = tensors
        self._patterns = patterns
        self._head_dim = head_dim

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def file_of(self, name: str) -> Path:
        return self._tensors.file_of(name)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors.shape(name)

    def read(self, name: str) -> Tensor:
        rows = self._tensors.read(name)
        if not any(fnmatchcase(name, pattern) for pattern in self._patterns):
            return rows
        pairs: Tensor = rows.unflatten(0, (-1, self._head_dim // 2, 2))  # [heads, pairs, 2, ...]
        return pairs.transpose(1, 2).reshape(rows.shape)
