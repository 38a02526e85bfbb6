"""What a layer's one projection makes: the heads of its tokens, before they are normed and turned."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

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

    def split(self) -> tuple[Tensor, Tensor, Tensor]:
        """Queries `[B, T, heads, D]`, keys and values `[B, T, kv_heads, D]`, normed and turned."""
        heads = self.raw.unflatten(-1, (-1, self.head_dim))
        query, key, value = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        if self.turn is not None:
            query, key = self.turn(query), self.turn(key)
        return query, key, value
