"""Attention over keys and values that live in pages."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows
from rhapsode.device.trace import decides
from rhapsode.nn.heads import Heads
from rhapsode.nn.kernels.attention import attention, paged_attention, prompt_attention

__all__ = ["FusedMemory", "Memory", "Paged", "attention"]


class Memory(Protocol):
    """Where a stack of layers keeps its keys and values, and how it looks back at them."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Store `key` and `value [B, T, kv_heads, D]`, and look back with `query [B, T, heads, D]`; its shape again."""


class FusedMemory(Memory):
    """A memory that takes what the projection made, and norms, turns, stores and looks back in one go if it can."""

    def attend_heads(self, layer: int, heads: Heads) -> Tensor:
        """What the heads see, [B, T, heads * D]."""
        return self.attend(layer, *heads.split()).flatten(2)


class Paged(FusedMemory):
    """The paged memory of a batch: ragged chunks of prompts, or one token per row.

    `positions [B, T]` says where each token goes. Tokens that only fill up a row (`valid` false) are written to the
    scratch page, and what they compute is nobody's.
    """

    def __init__(self, kv: PagedKV, rows: Rows, positions: Tensor, valid: Tensor | None = None) -> None:
        self._kv, self._rows, self._positions, self._valid = kv, rows, positions, valid

    def attend_heads(self, layer: int, heads: Heads) -> Tensor:
        kv, rows, positions = self._kv, self._rows, self._positions
        if positions.shape[1] == 1 and self._valid is None:
            seen = paged_attention(heads, kv, layer, rows, positions[:, 0])
        else:
            seen = prompt_attention(heads, kv, layer, rows, positions, self._valid)
        return super().attend_heads(layer, heads) if seen is None else seen

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self._kv.keys[layer], self._kv.values[layer]  # [pages, page_size, kv_heads, D]
        keys.flatten(0, 1)[self._cell] = key.flatten(0, 1).to(keys.dtype)
        values.flatten(0, 1)[self._cell] = value.flatten(0, 1).to(values.dtype)
        past_keys, past_values = self._kv.read(layer, self._pages)
        return attention(query, past_keys.to(query.dtype), past_values.to(query.dtype), self._hidden)

    @cached_property
    def _pages(self) -> Tensor:
        """Those that have to be looked at, [B, P]. A GPU is never waited for, so there it is all of them."""
        pages = self._rows.pages
        return _used(pages, self._positions, self._kv.page_size) if pages.device.type == "cpu" else pages

    @cached_property
    def _cell(self) -> Tensor:
        """Where each token goes, [B * T]."""
        size = self._kv.page_size
        cell = self._pages.gather(1, self._positions // size) * size + self._positions % size
        return (cell if self._valid is None else cell * self._valid).flatten()

    @cached_property
    def _hidden(self) -> Tensor:
        return _after(self._pages, self._positions, self._kv.page_size)


@decides
def _used(pages: Tensor, positions: Tensor, page_size: int) -> Tensor:
    return pages[:, : int(positions.max()) // page_size + 1]


@decides
def _after(pages: Tensor, positions: Tensor, page_size: int) -> Tensor:
    """What lies behind each token's position, [B, T, S]."""
    where = torch.arange(pages.shape[1] * page_size, device=pages.device)
    return where > positions[..., None]
