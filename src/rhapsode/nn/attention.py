"""Attention backends: where a stack of layers keeps its keys and values, and how it attends to them."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows
from rhapsode.device.trace import decides
from rhapsode.nn.kernels.attention import KVPages, attention, paged_attention, prompt_attention
from rhapsode.nn.kernels.heads import ProjectedHeads


class AttentionBackend(Protocol):
    """Stores the keys and values of a stack of layers, and attends to them."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores `key` and `value [B, T, kv_heads, D]` and attends with `query [B, T, heads, D]`; returns its shape."""


class FusedAttentionBackend(AttentionBackend):
    """A backend whose kernels take the qkv projection: norm, rotary embedding, store and attention are one launch."""

    def attend_heads(self, layer: int, heads: ProjectedHeads) -> Tensor:
        """Returns `[B, T, heads * D]`. This is the fallback without a kernel."""
        return self.attend(layer, *heads.split()).flatten(2)


class PagedAttention(FusedAttentionBackend):
    """Attention over the KV pages of a batch: ragged chunks of prompts, or one token per row.

    `positions [B, T]` are the tokens' positions. Padding tokens (`valid` false) are written to the scratch page, and
    their output is meaningless.
    """

    def __init__(self, kv: PagedKV, rows: Rows, positions: Tensor, valid: Tensor | None = None) -> None:
        self._kv, self._rows, self._positions, self._valid = kv, rows, positions, valid

    def attend_heads(self, layer: int, heads: ProjectedHeads) -> Tensor:
        kv, rows, positions = self._kv, self._rows, self._positions
        pages = KVPages(kv.keys, kv.values, rows.slots, rows.table.pages)
        if positions.shape[1] == 1 and self._valid is None:
            attended = paged_attention(heads, pages, layer, positions[:, 0])
        else:
            attended = prompt_attention(heads, pages, layer, positions, self._valid)
        return super().attend_heads(layer, heads) if attended is None else attended

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self._kv.keys[layer], self._kv.values[layer]  # [pages, page_size, kv_heads, D]
        keys.flatten(0, 1)[self._cell] = key.flatten(0, 1).to(keys.dtype)
        values.flatten(0, 1)[self._cell] = value.flatten(0, 1).to(values.dtype)
        past_keys, past_values = self._kv.read(layer, self._pages)
        return attention(query, past_keys.to(query.dtype), past_values.to(query.dtype), self._mask)

    @cached_property
    def _pages(self) -> Tensor:
        """The pages to read, [B, P]. On a GPU it is all of them, because the host must not wait for the positions."""
        pages = self._rows.pages
        return _used_pages(pages, self._positions, self._kv.page_size) if pages.device.type == "cpu" else pages

    @cached_property
    def _cell(self) -> Tensor:
        """The place of each token in the flattened pages, [B * T]."""
        size = self._kv.page_size
        cell = self._pages.gather(1, self._positions // size) * size + self._positions % size
        return (cell if self._valid is None else cell * self._valid).flatten()

    @cached_property
    def _mask(self) -> Tensor:
        return _future(self._pages, self._positions, self._kv.page_size)


@decides
def _used_pages(pages: Tensor, positions: Tensor, page_size: int) -> Tensor:
    return pages[:, : int(positions.max()) // page_size + 1]


@decides
def _future(pages: Tensor, positions: Tensor, page_size: int) -> Tensor:
    """The causal mask: true for what comes after each token's position, [B, T, S]."""
    where = torch.arange(pages.shape[1] * page_size, device=pages.device)
    return where > positions[..., None]
