"""Paged keys and values: fixed-size pages of positions, found through a slot's page table."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rhapsode.device.zeros import give_back, zeros

SCRATCH_PAGE = 0


@dataclass(frozen=True)
class KVLayout:
    """The shape of one stack of layers' keys and values."""

    layers: int
    heads: int
    head_dim: int

    def bytes_per_position(self, dtype: torch.dtype) -> int:
        return 2 * self.layers * self.heads * self.head_dim * dtype.itemsize


class PagedKV:
    """Keys and values of one stack of layers. Page 0 is scratch: padding rows write there."""

    def __init__(self, layout: KVLayout, pages: int, page_size: int, dtype: torch.dtype, device: torch.device) -> None:
        shape = (layout.layers, pages + 1, page_size, layout.heads, layout.head_dim)
        self.page_size = page_size
        self.keys = zeros(shape, dtype, device)
        self.values = zeros(shape, dtype, device)

    def write(self, layer: int, pages: Tensor, positions: Tensor, key: Tensor, value: Tensor) -> None:
        """Stores `[B, T, heads, head_dim]` at `positions [B, T]` of the rows whose page tables are `pages [B, P]`."""
        page = pages.gather(1, positions // self.page_size)
        offset = positions % self.page_size
        self.keys[layer, page, offset] = key
        self.values[layer, page, offset] = value

    def read(self, layer: int, pages: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys and values of all positions of these page tables, `[B, P * page_size, heads, head_dim]` each."""
        return self.keys[layer, pages].flatten(1, 2), self.values[layer, pages].flatten(1, 2)

    def give_back(self, start: int, stop: int) -> None:
        """Returns the memory of these pages, which hold nothing that is needed, to the system. Only on a CPU."""
        for layer in (*self.keys, *self.values):
            give_back(layer[start:stop])
