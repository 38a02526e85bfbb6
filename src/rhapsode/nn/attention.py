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
from rhapsode.nn.kernels.cpu.layers import StackProgram
from rhapsode.nn.kernels.heads import ProjectedHeads
from rhapsode.nn.kernels.rotary import RotaryAngles

FEW_TOKENS = 64
"""Packed layers run up to this many tokens per row; longer prompts run in PyTorch's products."""


class AttentionBackend(Protocol):
    """Stores the keys and values of a stack of layers, and attends to them."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores `key` and `value [B, T, kv_heads, D]`, then attends with `query [B, T, heads, D]`.

        Returns one vector per query, `[B, T, heads, D]`.
        """


class FusedAttentionBackend(AttentionBackend):
    """A backend that takes queries, keys and values as one projection gives them.

    So one GPU kernel can normalise them, apply the rotary embedding, store keys and values, and attend.
    """

    def attend_heads(self, layer: int, heads: ProjectedHeads) -> Tensor:
        """Stores and attends as `attend` does; returns `[B, T, heads * D]`. Without a kernel it calls `attend`."""
        return self.attend(layer, *heads.split()).flatten(2)


class PagesAttention(FusedAttentionBackend):
    """Attention over the KV pages of a batch: ragged chunks of prompts, or one token per row.

    `positions [B, T]` are the tokens' positions; a token attends to all positions up to `last [B, T]`, by default its
    own. Padding tokens (`valid` false) are written to the scratch page, and their output is meaningless.
    """

    def __init__(
        self, pages: KVPages, positions: Tensor, valid: Tensor | None = None, last: Tensor | None = None
    ) -> None:
        self._kv, self._positions, self._valid, self._last = pages, positions, valid, last

    def attend_heads(self, layer: int, heads: ProjectedHeads) -> Tensor:
        positions = self._positions
        if positions.shape[1] == 1 and self._valid is None and self._last is None:
            attended = paged_attention(heads, self._kv, layer, positions[:, 0])
        else:
            attended = prompt_attention(heads, self._kv, layer, positions, self._valid, self._last)
        return super().attend_heads(layer, heads) if attended is None else attended

    def takes(self, x: Tensor) -> bool:
        """Whether packed layers can run `x [B, T, hidden]`: few tokens per row, in float32 like the keys and values."""
        few = self._last is None and x.shape[1] <= FEW_TOKENS
        return few and x.dtype == self._kv.keys.dtype == torch.float32 and not x.is_cuda

    def run(self, program: StackProgram, x: Tensor, rotary: RotaryAngles | None) -> Tensor:
        """Runs all layers, without the final norm."""
        tables = self._kv.tables[self._kv.slots][:, None].expand(-1, x.shape[1], -1)
        if self._valid is not None:
            tables = tables * self._valid[..., None]  # page 0 is scratch
        cos, sin = (None, None) if rotary is None else (angles.flatten(0, 2) for angles in rotary)
        tokens, positions = x.flatten(0, 1), self._positions.flatten()
        made = program.run(tokens, cos, sin, self._kv.keys, self._kv.values, tables.flatten(0, 1), positions)
        return made.view(x.shape)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self._kv.keys[layer], self._kv.values[layer]  # [pages, page_size, kv_heads, D]
        keys.flatten(0, 1)[self._cell] = key.flatten(0, 1).to(keys.dtype)
        values.flatten(0, 1)[self._cell] = value.flatten(0, 1).to(values.dtype)
        past_keys, past_values = (past[self._pages].flatten(1, 2).to(query.dtype) for past in (keys, values))
        return attention(query, past_keys, past_values, self._mask)

    @cached_property
    def _pages(self) -> Tensor:
        """The pages to read, [B, P]. On a GPU it is all of them, because the host must not wait for the positions."""
        pages = self._kv.tables[self._kv.slots]
        if pages.device.type != "cpu":
            return pages
        last = self._positions if self._last is None else torch.maximum(self._positions, self._last)
        return _used_pages(pages, last, self._page_size)

    @property
    def _page_size(self) -> int:
        return self._kv.keys.shape[2]

    @cached_property
    def _cell(self) -> Tensor:
        """The place of each token in the flattened pages, [B * T]."""
        size = self._page_size
        cell = self._pages.gather(1, self._positions // size) * size + self._positions % size
        return (cell if self._valid is None else cell * self._valid).flatten()

    @cached_property
    def _mask(self) -> Tensor:
        last = self._positions if self._last is None else self._last
        return _future(self._pages, last, self._page_size)


class PagedAttention(PagesAttention):
    """`PagesAttention` for the rows of a launch."""

    def __init__(self, kv: PagedKV, rows: Rows, positions: Tensor, valid: Tensor | None = None) -> None:
        super().__init__(KVPages(kv.keys, kv.values, rows.slots, rows.table.pages), positions, valid)


@decides
def _used_pages(pages: Tensor, positions: Tensor, page_size: int) -> Tensor:
    return pages[:, : int(positions.max()) // page_size + 1]


@decides
def _future(pages: Tensor, positions: Tensor, page_size: int) -> Tensor:
    """The causal mask: true for what comes after each token's position, [B, T, S]."""
    where = torch.arange(pages.shape[1] * page_size, device=pages.device)
    return where > positions[..., None]
