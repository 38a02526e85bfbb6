"""What a flow keeps of earlier frames: keys, values and convolution inputs, for every Euler step and both halves.

All of it is stored in pages, by position. So requests share the pages of frames that they have in common, such as those
of a voice, and the state of a request grows with its audio.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.device.kv import KVLayout, PagedKV
from rhapsode.device.slots import Rows
from rhapsode.nn.attention import AttentionBackend, PagesAttention
from rhapsode.nn.dit.config import DiTConfig
from rhapsode.nn.dit.position_conv import KERNEL
from rhapsode.nn.kernels.attention import KVPages

HALVES = 2
"""Conditional and unconditional: a doubled batch, whose second half has pages of its own."""


class DiTHistory(Protocol):
    """What the transformer needs of earlier frames, for each Euler step."""

    positions: Tensor
    """Positions of the frames, counted from the start of the prompt, `[2 * B or 1, T]`."""

    def extend(self, step: int, conv: int, x: Tensor) -> Tensor:
        """Prepends the inputs that position convolution 0 or 1 had before `x [2 * B, T, dim]`."""

    def attention(self, step: int) -> AttentionBackend:
        """Returns the attention of one Euler step, for all layers: over the new frames and those before them."""


def page_layouts(config: DiTConfig) -> tuple[KVLayout, KVLayout]:
    """Returns the layouts of keys and values, and of the inputs of the two position convolutions."""
    attended = KVLayout(config.steps * config.depth * HALVES, config.heads, config.head_dim)
    return attended, KVLayout(config.steps * HALVES, 1, config.dim)


class PagedHistory:
    """A history in pages, for frames from `start [B]` on; frames that are not `valid [B, T]` do not exist.

    The frames of a launch attend to each other and to all before them. So a launch works on one chunk of each row.
    """

    def __init__(self, rows: Rows, start: Tensor, valid: Tensor, config: DiTConfig) -> None:
        attended, convolved = rows.kv
        length, size = valid.shape[1], attended.page_size
        tables, most = rows.table.pages, rows.table.pages.shape[1] * size
        steps = torch.arange(-(KERNEL - 1), length, device=start.device)
        where = start[:, None] + steps  # [B, tail + T]
        inside = where.clamp(0, most - 1)
        pages = attended.keys.shape[1]
        cells = tables[rows.slots].gather(1, inside // size) * size + inside % size
        stored = torch.cat((where[:, : KERNEL - 1] >= 0, valid), dim=1)
        self._stored = stored.repeat(HALVES, 1)
        self._cells = torch.cat([torch.where(stored, cells, 0) + half * pages * size for half in range(HALVES)])
        self.positions = inside[:, KERNEL - 1 :].repeat(HALVES, 1)
        self._valid = valid.repeat(HALVES, 1)
        last = (start + valid.sum(1) - 1).clamp(0, most - 1)
        self._last = last[:, None].expand(-1, length).repeat(HALVES, 1)
        self._slots = torch.cat([rows.slots + half * len(tables) for half in range(HALVES)])
        self._tables = torch.cat([tables + half * pages for half in range(HALVES)])
        self._attended = _by_step(attended, config.steps, config.depth)
        tails = _by_step(convolved, config.steps, 1)
        self._convolved = [kept.flatten(1, 4) for kept in tails]  # [steps, cells, dim] each

    def extend(self, step: int, conv: int, x: Tensor) -> Tensor:
        kept, before = self._convolved[conv][step], KERNEL - 1
        tail = kept[self._cells[:, :before]].to(x.dtype) * self._stored[:, :before, None]
        kept[self._cells[:, before:]] = x.to(kept.dtype)
        return torch.cat((tail, x), dim=1)

    def attention(self, step: int) -> AttentionBackend:
        keys, values = (kept[step] for kept in self._attended)
        pages = KVPages(keys, values, self._slots, self._tables)
        return PagesAttention(pages, self.positions, self._valid, self._last)


def _by_step(kv: PagedKV, steps: int, layers: int) -> list[Tensor]:
    """Returns keys and values as `[steps, layers, halves * pages, page_size, heads, D]`."""
    shape = (steps, layers, HALVES * kv.keys.shape[1], *kv.keys.shape[2:])
    return [kv.keys.view(shape), kv.values.view(shape)]


class OnePassHistory:
    """An empty history: one pass over whole sequences, with a mask over chunks of `chunk` frames, or without a mask.

    Only the first `lengths [B]` of the `length` frames exist.
    """

    def __init__(self, lengths: Tensor, length: int, chunk: int | None) -> None:
        self.positions = torch.arange(length, device=lengths.device)[None]
        chunks = self.positions // (chunk or length)
        later = chunks > chunks.T  # [T, S]
        absent = self.positions >= lengths.clamp(min=1)[:, None]  # [B, S]
        self._visible = ~(later | absent[:, None]).repeat(HALVES, 1, 1)[:, None]  # [2 * B, 1, T, S]

    def extend(self, step: int, conv: int, x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, KERNEL - 1, 0))

    def attention(self, step: int) -> AttentionBackend:
        return self

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        return F.scaled_dot_product_attention(query, key, value, attn_mask=self._visible).transpose(1, 2)
