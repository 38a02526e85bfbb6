"""Looking back: at the pages of a request, or at the few tokens of a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rhapsode.device.trace import decides
from rhapsode.nn import kernels

if TYPE_CHECKING:
    from rhapsode.device.kv import PagedKV
    from rhapsode.device.slots import Rows
    from rhapsode.nn.heads import Heads


@decides
def attention(query: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Grouped-query attention of `[B, T, heads, D]` over `[B, S, kv_heads, D]`; `hidden [B, T, S]` is not looked at.

    Plain PyTorch: the reference of the kernels below, and what they are not for.
    """
    batch, length, _, dim = query.shape
    groups = keys.shape[2]
    # The query heads of one kv head become rows of one product: keys are never repeated.
    if length > 1:
        query = query.unflatten(2, (groups, -1)).permute(0, 2, 3, 1, 4)
    rows = query.reshape(batch * groups, -1, dim)  # [.., heads * T, D]
    past = keys.transpose(1, 2).flatten(0, 1)  # [B * kv_heads, S, D]
    scores = torch.bmm(rows * dim**-0.5, past.transpose(1, 2)).float()
    if hidden is not None:
        scores.view(batch, -1, length, hidden.shape[2]).masked_fill_(hidden[:, None], float("-inf"))
    weights = scores.softmax(-1).to(query.dtype)
    seen = torch.bmm(weights, values.transpose(1, 2).flatten(0, 1))
    if length > 1:
        seen = seen.view(batch, groups, -1, length, dim).permute(0, 3, 1, 2, 4)
    return seen.reshape(batch, length, -1, dim)


def paged_attention(heads: Heads, kv: PagedKV, layer: int, rows: Rows, positions: Tensor) -> Tensor | None:
    """One token per row at `positions [B]`: normed, turned, stored and looked back with, [B, 1, heads * D].

    `None` where there is no kernel for it: then `Paged.attend` is the way.
    """
    if not kernels.on(heads.raw) or not _served(heads, kv.keys.dtype):
        return None
    from rhapsode.nn.kernels.gpu.attention import paged

    return paged(heads, kv.keys[layer], kv.values[layer], rows.slots, rows.table.pages, positions)


def prompt_attention(
    heads: Heads, kv: PagedKV, layer: int, rows: Rows, positions: Tensor, valid: Tensor | None
) -> Tensor | None:
    """The same for chunks of prompts at `positions [B, T]`, of which `valid [B, T]` are more than filling."""
    if not kernels.on(heads.raw) or not _served(heads, kv.keys.dtype):
        return None
    from rhapsode.nn.kernels.gpu.prompt import prompt

    return prompt(heads, kv.keys[layer], kv.values[layer], rows.slots, rows.table.pages, positions, valid)


def frame_attention(heads: Heads, keys: Tensor, values: Tensor, position: int) -> Tensor | None:
    """The same for one token per row at `position` of a frame's `keys` and `values [B, kv_heads, most, D]`."""
    if not kernels.on(heads.raw) or not _served(heads, keys.dtype):
        return None
    from rhapsode.nn.kernels.gpu.attention import frame

    return frame(heads, keys, values, position)


def local_attention(heads: Heads) -> Tensor | None:
    """All tokens of a row look at all of them: turned and looked at, [B, T, heads * D]; `None` as above."""
    if not kernels.on(heads.raw) or not heads.raw.is_contiguous() or not _served(heads, heads.raw.dtype):
        return None
    from rhapsode.nn.kernels.gpu.local import MOST_TOKENS, local

    return local(heads) if heads.raw.shape[1] <= MOST_TOKENS else None


def _served(heads: Heads, memory_dtype: torch.dtype) -> bool:
    normed = (heads.q_norm is None) == (heads.k_norm is None)
    return normed and heads.raw.dtype == memory_dtype and heads.heads // heads.kv_heads <= 16
