"""What a layer's one projection makes: the heads of its tokens, before they are normed and turned."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rhapsode.nn.kernels.norm import rms_norm_reference
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.rope import Turn


@dataclass(frozen=True)
class Heads:
    """Queries, then keys, then values, of each token."""

    raw: Tensor  # [B, T, (heads + 2 * kv_heads) * head_dim]
    heads: int
    kv_heads: int
    head_dim: int
    q_norm: RMSNorm | None
    k_norm: RMSNorm | None
    turn: Turn | None
    weights: Tensor | None = None  # of both norms, as `norm_weights` has them, where somebody keeps them

    def split(self) -> tuple[Tensor, Tensor, Tensor]:
        """Queries `[B, T, heads, D]`, keys and values `[B, T, kv_heads, D]`, normed and turned."""
        looking = self.heads + self.kv_heads
        both, value = self.raw.unflatten(-1, (-1, self.head_dim)).split((looking, self.kv_heads), dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            weights = self.weights
            if weights is None:
                weights = norm_weights(self.q_norm, self.heads, self.k_norm, self.kv_heads)
            both = rms_norm_reference(both, weights, self.q_norm.eps)
        if self.turn is not None:
            both = self.turn(both)
        query, key = both.split((self.heads, self.kv_heads), dim=2)
        return query, key, value


def norm_weights(q_norm: RMSNorm, heads: int, k_norm: RMSNorm, kv_heads: int) -> Tensor:
    """Of queries and keys together, [heads + kv_heads, D]."""
    return torch.cat([q_norm.weight.expand(heads, -1), k_norm.weight.expand(kv_heads, -1)])
