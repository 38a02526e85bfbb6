"""The shapes of a checkpoint's tensors, from which sizes are read: there is no config file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rhapsode.errors import CheckpointError

if TYPE_CHECKING:
    from rhapsode.checkpoints.weights import Tensors


class TensorShapes:
    """The shapes of a checkpoint's tensors."""

    def __init__(self, tensors: Tensors, prefix: str = "") -> None:
        self._tensors, self._prefix = tensors, prefix

    def size(self, name: str, axis: int = 0) -> int:
        """Returns one size of a tensor."""
        whole = self._prefix + name
        if whole not in self._tensors:
            raise CheckpointError(f"{self._tensors.folder} lacks the tensor '{whole}'.")
        shape = self._tensors.shape(whole)
        if axis >= len(shape):
            raise CheckpointError(f"{self._tensors.file_of(whole)}: '{whole}' has only {len(shape)} axes.")
        return shape[axis]

    def count(self, start: str) -> int:
        """Returns how many modules of a list have tensors: names are `start`, a number, a dot and more."""
        whole = self._prefix + start
        numbers = {name[len(whole) :].partition(".")[0] for name in self._tensors if name.startswith(whole)}
        return len(numbers)
