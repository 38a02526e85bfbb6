"""Attention: over the KV pages of a request, over the tokens of one frame, or over all tokens of a pass."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.device.trace import decides
from rhapsode.nn import kernels
from rhapsode.nn.kernels.heads import ProjectedHeads

MAX_GROUP = 16
"""Query heads per KV head that the kernels support."""


class KVPages(NamedTuple):
    """The paged keys and values of all layers, and the page tables of a batch."""

    keys: Tensor  # [layers, pages, page_size, kv_heads, D]
    values: Tensor
    slots: Tensor  # [B]
    tables: Tensor  # [slots, pages per slot]


@decides
def attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Grouped-query attention of `[B, T, heads, D]` over `[B, S, kv_heads, D]`; true in `mask [B, T, S]` hides a key.

    This is the plain PyTorch reference of the kernels below, and the fallback for what they do not support.
    """
    batch, length, _, dim = query.shape
    groups = keys.shape[2]
    # The query heads of one KV head become rows of one product: keys are never repeated.
    if length > 1:
        query = query.unflatten(2, (groups, -1)).permute(0, 2, 3, 1, 4)
    rows = query.reshape(batch * groups, -1, dim)  # [.., heads * T, D]
    past = keys.transpose(1, 2).flatten(0, 1)  # [B * kv_heads, S, D]
    scores = torch.bmm(rows * dim**-0.5, past.transpose(1, 2))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is not None:
        scores.view(batch, -1, length, mask.shape[2]).masked_fill_(mask[:, None], float("-inf"))
    weights = scores.softmax(-1).to(query.dtype)
    attended = torch.bmm(weights, values.transpose(1, 2).flatten(0, 1))
    if length > 1:
        attended = attended.view(batch, groups, -1, length, dim).permute(0, 3, 1, 2, 4)
    return attended.reshape(batch, length, -1, dim)


def paged_attention(heads: ProjectedHeads, pages: KVPages, layer: int, positions: Tensor) -> Tensor | None:
    """Stores one token per row at `positions [B]` and attends to its past: [B, 1, heads * D].

    Also applies norm and rotary embedding. Returns `None` where no kernel supports the arguments.
    """
    if not _supported(heads, pages.keys.dtype):
        return None
    from rhapsode.nn.kernels.gpu.attention import paged

    return paged(heads, pages.keys[layer], pages.values[layer], pages.slots, pages.tables, positions)


def prompt_attention(
    heads: ProjectedHeads,
    pages: KVPages,
    layer: int,
    positions: Tensor,
    valid: Tensor | None,
    last: Tensor | None = None,
) -> Tensor | None:
    """`paged_attention` for chunks of prompts at `positions [B, T]`; tokens that are not `valid [B, T]` are padding.

    A token attends to all positions up to `last [B, T]`; by default that is its own.
    """
    if not _supported(heads, pages.keys.dtype, partly=True):
        return None
    from rhapsode.nn.kernels.gpu.prompt import prompt

    return prompt(heads, pages.keys[layer], pages.values[layer], pages.slots, pages.tables, positions, valid, last)


def frame_attention(heads: ProjectedHeads, keys: Tensor, values: Tensor, position: int) -> Tensor | None:
    """Does the same for tokens of one frame from `position` on; `keys`, `values`: [B, kv_heads, max tokens, D]."""
    if not _supported(heads, keys.dtype):
        return None
    from rhapsode.nn.kernels.gpu.attention import frame

    return frame(heads, keys, values, position)


def local_attention(heads: ProjectedHeads) -> Tensor | None:
    """Attends from every token of a row to all of them: [B, T, heads * D]; `None` as above."""
    if not heads.qkv.is_contiguous() or not _supported(heads, heads.qkv.dtype):
        return None
    from rhapsode.nn.kernels.gpu.local import MAX_TOKENS, local

    return local(heads) if heads.qkv.shape[1] <= MAX_TOKENS else None


def _supported(heads: ProjectedHeads, cache_dtype: torch.dtype, *, partly: bool = False) -> bool:
    """Returns whether a kernel supports these heads. `partly`: it can rotate some of the heads alone."""
    qkv = heads.qkv
    if heads.rotated is not None and not partly:
        return False
    return kernels.on(qkv) and qkv.dtype == cache_dtype and heads.heads // heads.kv_heads <= MAX_GROUP
