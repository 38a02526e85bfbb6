"""Joins tables that the first release of v2 keeps in two parts: rows that training froze, and rows that it changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from rhapsode.checkpoints.weights import ChangedTensors, Tensors

_PARTS = (("embedding_frozen", "embedding_trainable"), ("linear_frozen", "linear_trainable"))


class JoinedHalves(ChangedTensors):
    """The tensors of a checkpoint, where `x.embedding_frozen.weight` and `x.embedding_trainable.weight` are `x.weight`.

    The same holds for `linear_frozen` and `linear_trainable`.
    """

    def __init__(self, tensors: Tensors) -> None:
        super().__init__(tensors)
        self._joined: dict[str, tuple[str, str]] = {}
        for frozen, trainable in _PARTS:
            for name in tensors:
                other = name.replace(f".{frozen}.", f".{trainable}.")
                if other != name and other in tensors:
                    self._joined[name.replace(f".{frozen}.", ".")] = (name, other)
        self._hidden = {name for pair in self._joined.values() for name in pair}

    def __contains__(self, name: str) -> bool:
        return name in self._joined or (name in self._tensors and name not in self._hidden)

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._tensors if name not in self._hidden)
        yield from self._joined

    def file_of(self, name: str) -> Path:
        return self._tensors.file_of(self._joined.get(name, (name,))[0])

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._joined:
            return self._tensors.shape(name)
        (rows, *rest), (more, *_) = map(self._tensors.shape, self._joined[name])
        return (rows + more, *rest)

    def read(self, name: str) -> Tensor:
        if name not in self._joined:
            return self._tensors.read(name)
        return torch.cat([self._tensors.read(part) for part in self._joined[name]])
