"""The decoder layer of every family: pre-norm, grouped-query attention, a gated or a plain feed-forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn.attention import Memory
from rhapsode.nn.kv import KVLayout
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.rope import Rope, RopeConfig, Turn


@dataclass(frozen=True)
class DecoderConfig:
    """The shape of a stack of layers."""

    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope: RopeConfig | None
    """`None`: no positions at all."""
    qk_norm: bool = False
    norm: Literal["rms", "layer"] = "rms"
    eps: float = 1e-6
    mlp: Literal["swiglu", "gelu", "gelu_tanh"] = "swiglu"
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False

    def kv(self) -> KVLayout:
        return KVLayout(self.layers, self.kv_heads, self.head_dim)


class FusedLinear(nn.Linear):
    """Several linears of one input as one; `sizes` says where one ends and the next begins."""

    def __init__(self, into: int, sizes: tuple[int, ...], bias: bool = False) -> None:
        super().__init__(into, sum(sizes), bias=bias)
        self.sizes = sizes


class Attention(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.qkv = FusedLinear(config.hidden, (queries, keys, keys), config.attention_bias)
        self.o_proj = nn.Linear(queries, config.hidden, bias=config.output_bias)
        self.q_norm = RMSNorm(config.head_dim, config.eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.head_dim, config.eps) if config.qk_norm else None

    def forward(self, x: Tensor, layer: int, turn: Turn | None, memory: Memory) -> Tensor:
        heads = self.qkv(x).unflatten(-1, (-1, self.head_dim))  # [B, T, heads + 2 * kv_heads, D]
        query, key, value = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        if turn is not None:
            query, key = turn(query), turn(key)
        return self.o_proj(memory.attend(layer, query, key, value).flatten(2))


class GatedMLP(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate_up = FusedLinear(config.hidden, (config.ffn, config.ffn), config.mlp_bias)
        self.down_proj = nn.Linear(config.ffn, config.hidden, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)


class PlainMLP(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden, config.ffn, bias=config.mlp_bias)
        self.fc2 = nn.Linear(config.ffn, config.hidden, bias=config.mlp_bias)
        self.approximate = "tanh" if config.mlp == "gelu_tanh" else "none"

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x), approximate=self.approximate))


def make_norm(config: DecoderConfig) -> nn.Module:
    return RMSNorm(config.hidden, config.eps) if config.norm == "rms" else nn.LayerNorm(config.hidden, config.eps)


class DecoderLayer(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.input_layernorm = make_norm(config)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = make_norm(config)
        self.mlp = GatedMLP(config) if config.mlp == "swiglu" else PlainMLP(config)

    def forward(self, x: Tensor, layer: int, turn: Turn | None, memory: Memory) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), layer, turn, memory)
        return x + self.mlp(self.post_attention_layernorm(x))


class DecoderStack(nn.Module):
    """Embeddings in, normed hidden states out; what is remembered is in the memory it is given."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = make_norm(config)
        self.rope = Rope(config.rope) if config.rope else None

    def turn(self, positions: Tensor, dtype: torch.dtype) -> Turn | None:
        """What `positions [B, T]` mean to this stack's heads."""
        return self.rope(positions, dtype) if self.rope else None

    def forward(self, x: Tensor, turn: Turn | None, memory: Memory) -> Tensor:
        """`x [B, T, hidden]`, turned as `turn` says for its positions."""
        for i, layer in enumerate(self.layers):
            x = layer(x, i, turn, memory)
        return self.norm(x)
