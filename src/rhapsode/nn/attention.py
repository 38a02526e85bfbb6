"""Attention over keys and values that live in pages. Plain PyTorch: the reference for every kernel."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from rhapsode.nn.kv import PagedKV
from rhapsode.nn.slots import Rows


class Memory(Protocol):
    """Where a stack of layers keeps its keys and values, and how it looks back at them."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Store `key` and `value [B, T, kv_heads, D]`, and look back with `query [B, T, heads, D]`; its shape again."""


def attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Grouped-query attention of `[B, T, heads, D]` over `[B, S, kv_heads, D]`; `mask [B, T, S]` is true where seen."""
    batch, length, _, dim = query.shape
    groups = keys.shape[2]
    # The query heads of one kv head become rows of one product: keys are never repeated.
    rows = (
        query.unflatten(2, (groups, -1)).permute(0, 2, 3, 1, 4).reshape(batch * groups, -1, dim)
    )  # [.., heads * T, D]
    past = keys.transpose(1, 2).flatten(0, 1)  # [B * kv_heads, S, D]
    scores = torch.bmm(rows * dim**-0.5, past.transpose(1, 2)).float()
    if mask is not None:
        scores = scores.view(batch, -1, length, mask.shape[2]).masked_fill(~mask[:, None], float("-inf"))
    weights = scores.view(rows.shape[0], rows.shape[1], -1).softmax(-1).to(query.dtype)
    seen = torch.bmm(weights, values.transpose(1, 2).flatten(0, 1))
    return seen.view(batch, groups, -1, length, dim).permute(0, 3, 1, 2, 4).reshape(query.shape)


class Paged:
    """The paged memory of a batch: ragged chunks of prompts, or one token per row.

    `positions [B, T]` says where each token goes. Tokens that only fill up a row (`valid` false) are written to the
    scratch page, and what they compute is nobody's.
    """

    def __init__(self, kv: PagedKV, rows: Rows, positions: Tensor, valid: Tensor | None = None) -> None:
        pages = rows.pages
        pages = pages[:, : _width(pages, positions, kv.page_size)]  # [B, P]
        cell = pages.gather(1, positions // kv.page_size) * kv.page_size + positions % kv.page_size
        if valid is not None:
            cell = cell * valid
        where = torch.arange(pages.shape[1] * kv.page_size, device=pages.device)
        self._mask = where <= positions[..., None]  # [B, T, S]
        self._cell = cell.flatten()
        self._pages = pages
        self._kv = kv

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self._kv.keys[layer], self._kv.values[layer]  # [pages, page_size, kv_heads, D]
        keys.flatten(0, 1)[self._cell] = key.flatten(0, 1).to(keys.dtype)
        values.flatten(0, 1)[self._cell] = value.flatten(0, 1).to(values.dtype)
        past_keys, past_values = self._kv.read(layer, self._pages)
        return attention(query, past_keys.to(query.dtype), past_values.to(query.dtype), self._mask)


def _width(pages: Tensor, positions: Tensor, page_size: int) -> int:
    """How many pages have to be looked at. A GPU is never waited for, so there it is all of them."""
    if pages.device.type != "cpu":
        return pages.shape[1]
    return int(positions.max()) // page_size + 1
