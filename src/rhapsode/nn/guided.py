"""Guidance of a talker: each request has two sequences, a conditional and an unconditional one, in every launch.

Both sequences of a request are equally long and have the same page table. Every page has two places in memory, one for
each sequence. So one launch runs all of them, and reads the weights once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.device.kv import KVLayout, PagedKV
from rhapsode.device.slots import Rows
from rhapsode.nn.attention import PagesAttention
from rhapsode.nn.kernels.attention import KVPages


class GuidedAttention(PagesAttention):
    """Attention of `x [2 * B, T, hidden]`: first the conditional rows of a launch, then the unconditional ones.

    `kv` has the layout that `guided_layout` makes. `positions [B, T]` and `valid [B, T]` are those of both.
    """

    def __init__(self, kv: PagedKV, rows: Rows, positions: Tensor, valid: Tensor | None = None) -> None:
        # The layers of the two sequences alternate: a layer of one and of the other are neighbours in memory.
        keys, values = (stored.unflatten(0, (-1, 2)).flatten(1, 2) for stored in (kv.keys, kv.values))
        pages = rows.pages
        tables = torch.cat((pages, pages + keys.shape[1] // 2))
        both = None if valid is None else torch.cat((valid, valid))
        slots = torch.arange(len(tables), device=tables.device)
        super().__init__(KVPages(keys, values, slots, tables), torch.cat((positions, positions)), both)


def guided_layout(layout: KVLayout) -> KVLayout:
    """Returns the layout of the keys and values of both sequences."""
    return KVLayout(2 * layout.layers, layout.heads, layout.head_dim)


def guided(scores: Tensor, weight: Tensor) -> Tensor:
    """Returns scores `[B, V]` of `scores [2 * B, V]`: the conditional ones, moved away from the unconditional ones.

    `weight [B]`: 0 is the conditional ones alone.
    """
    conditional, unconditional = scores.float().chunk(2)
    return conditional + weight[:, None] * (conditional - unconditional)
