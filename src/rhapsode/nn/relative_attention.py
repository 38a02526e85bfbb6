"""Attention with relative positions: a score also depends on the distance between query and key (Transformer-XL)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def distances(length: int, width: int, like: Tensor) -> Tensor:
    """Returns the encodings of all distances from `length - 1` down to `1 - length`, `[2 * length - 1, width]`.

    Sines and cosines alternate. The angles are rounded to float32, with which such networks were trained.
    """
    steps = torch.arange(0, width, 2, dtype=torch.float32, device=like.device)
    frequencies = torch.exp(steps * -(math.log(10_000.0) / width))
    where = torch.arange(length - 1, -length, -1, dtype=torch.float32, device=like.device)
    angles = (where[:, None] * frequencies).to(like.dtype)
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)


def by_distance(scores: Tensor) -> Tensor:
    """Turns scores by distance `[..., T, 2 * T - 1]`, largest distance first, into scores by key `[..., T, T]`."""
    length, scores = scores.shape[-2], scores.contiguous()
    *before, _, _ = scores.stride()
    shape, strides = (*scores.shape[:-1], length), (*before, 2 * length - 2, 1)
    return scores.as_strided(shape, strides, scores.storage_offset() + length - 1)


class RelativeAttention(nn.Module):
    """Every position attends to every other one that exists."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.linear_q, self.linear_k = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.linear_v, self.linear_out = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.linear_pos = nn.Linear(hidden, hidden, bias=False)
        self.pos_bias_u = nn.Parameter(torch.empty(heads, hidden // heads))
        self.pos_bias_v = nn.Parameter(torch.empty(heads, hidden // heads))

    def forward(self, x: Tensor, encodings: Tensor, hidden_keys: Tensor | None) -> Tensor:
        """Maps `x [B, T, hidden]`; `encodings` is `distances(T)`. Keys with `hidden_keys [B, 1, 1, T]` do not exist."""
        query = self._split(self.linear_q(x))  # [B, T, heads, D]
        key, value = (self._split(layer(x)).transpose(1, 2) for layer in (self.linear_k, self.linear_v))
        scale = query.shape[-1] ** -0.5
        table = self._split(self.linear_pos(encodings)).permute(1, 2, 0)  # [heads, D, 2 * T - 1]
        bias = by_distance((query + self.pos_bias_v).transpose(1, 2) @ table) * scale  # [B, heads, T, T]
        if hidden_keys is not None:
            bias = bias.masked_fill(hidden_keys, -torch.inf)
        content = (query + self.pos_bias_u).transpose(1, 2)
        attended = F.scaled_dot_product_attention(content, key, value, attn_mask=bias, scale=scale)
        return self.linear_out(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))
