"""Reads matrices that a checkpoint has as `[inputs, outputs]`, as GPT-2's `Conv1D` stores them."""

from __future__ import annotations

from fnmatch import fnmatchcase

from torch import Tensor

from rhapsode.checkpoints.weights import ChangedTensors, Tensors


class Transposed(ChangedTensors):
    """Tensors of a checkpoint, matrices whose names match a pattern transposed."""

    def __init__(self, tensors: Tensors, *patterns: str) -> None:
        """`patterns`: shell patterns of tensor names."""
        super().__init__(tensors)
        self._patterns = patterns

    def shape(self, name: str) -> tuple[int, ...]:
        shape = super().shape(name)
        return shape[::-1] if self._is_stored_so(name, shape) else shape

    def read(self, name: str) -> Tensor:
        tensor = super().read(name)
        return tensor.T if self._is_stored_so(name, tuple(tensor.shape)) else tensor

    def _is_stored_so(self, name: str, shape: tuple[int, ...]) -> bool:
        return len(shape) == 2 and any(fnmatchcase(name, pattern) for pattern in self._patterns)
