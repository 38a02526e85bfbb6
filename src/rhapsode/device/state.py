"""Slot-indexed device state: everything a request keeps between launches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rhapsode.device.zeros import zeros


class State:
    """Buffers with one row per slot, and a last scratch row that padding may write to.

    Every tensor attribute has `slots + 1` rows; nested states and lists of states count too.
    """

    def tensors(self) -> Iterator[Tensor]:
        yield from _tensors(vars(self).values())

    def clear(self, slots: Tensor) -> None:
        """Zeroes the rows of these slots."""
        for tensor in self.tensors():
            tensor.index_fill_(0, slots, 0)

    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors())


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, State):
            yield from value.tensors()
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def buffer(
    slots: int,
    *shape: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Makes a zeroed buffer with one row per slot and the scratch row."""
    return zeros((slots + 1, *shape), dtype, device)
