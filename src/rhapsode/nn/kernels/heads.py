"""The output of a layer's query-key-value projection, with what is applied to it before attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.nn.kernels.norm import rms_norm_reference
from rhapsode.nn.kernels.rotary import RotaryAngles


class HeadNorm(NamedTuple):
    """RMS norms of the query heads and of the key heads."""

    query: Tensor  # [D]
    key: Tensor  # [D]
    eps: float
    stacked: Tensor | None = None  # the result of `stack_norms`, where the caller keeps it


def stack_norms(query: Tensor, heads: int, key: Tensor, kv_heads: int) -> Tensor:
    """Repeats both weights `[D]` once per head, so that one norm serves queries and keys: [heads + kv_heads, D]."""
    return torch.cat([query.expand(heads, -1), key.expand(kv_heads, -1)])


@dataclass(frozen=True)
class ProjectedHeads:
    """The queries, keys and values of each token, before norm and rotary embedding."""

    qkv: Tensor  # [B, T, (heads + 2 * kv_heads) * head_dim]: queries, then keys, then values
    heads: int
    kv_heads: int
    head_dim: int
    norm: HeadNorm | None = None
    rotary: RotaryAngles | None = None
    rotated: int | None = None
    """How many of the first query heads, and of the first key heads, the rotary embedding rotates; `None`: all."""

    def split(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries `[B, T, heads, D]`, keys and values `[B, T, kv_heads, D]`, normed and rotated."""
        rotated = self.heads + self.kv_heads
        both, value = self.qkv.unflatten(-1, (-1, self.head_dim)).split((rotated, self.kv_heads), dim=2)
        if self.norm is not None:
            weights = self.norm.stacked
            if weights is None:
                weights = stack_norms(self.norm.query, self.heads, self.norm.key, self.kv_heads)
            both = rms_norm_reference(both, weights, self.norm.eps)
        query, key = both.split((self.heads, self.kv_heads), dim=2)
        if self.rotary is not None and self.rotated is None:
            query, key = self.rotary.rotate(both).split((self.heads, self.kv_heads), dim=2)
        elif self.rotary is not None:
            query, key = (self._rotate_first(x, self.rotary) for x in (query, key))
        return query, key, value

    def _rotate_first(self, x: Tensor, rotary: RotaryAngles) -> Tensor:
        return torch.cat((rotary.rotate(x[:, :, : self.rotated]), x[:, :, self.rotated :]), dim=2)
