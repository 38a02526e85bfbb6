"""The decoder layer of every family: pre-norm, grouped-query attention, a gated or a plain feed-forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.kv import KVLayout
from rhapsode.nn.attention import FusedMemory, Memory
from rhapsode.nn.derived import Derived
from rhapsode.nn.heads import Heads, norm_weights
from rhapsode.nn.kernels.linear import fused_linear, linear
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.quantised import Weight
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


class Attention(Derived):
    norm_weights: Tensor | None  # of queries and keys, once they are derived

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.qkv = FusedLinear(config.hidden, (queries, keys, keys), config.attention_bias)
        self.o_proj = nn.Linear(queries, config.hidden, bias=config.output_bias)
        self.q_norm = RMSNorm(config.head_dim, config.eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.head_dim, config.eps) if config.qk_norm else None
        self.register_buffer("norm_weights", None, persistent=False)

    def derive(self) -> None:
        if self.q_norm is not None and self.k_norm is not None:
            self.norm_weights = norm_weights(self.q_norm, self.heads, self.k_norm, self.kv_heads)

    def forward(self, x: Tensor, layer: int, turn: Turn | None, memory: Memory) -> Tensor:
        """For normed `x`; what it adds to the residual stream."""
        return linear(self.look(linear(x, self.qkv), layer, turn, memory), self.o_proj)

    def add(self, x: Tensor, norm: nn.Module, layer: int, turn: Turn | None, memory: Memory) -> Tensor:
        """The residual stream `x`, which is given up, and what attention to its norm adds to it."""
        seen = self.look(normed_linear(x, norm, self.qkv.weight, self.qkv.bias), layer, turn, memory)
        return fused_linear(seen, self.o_proj.weight, self.o_proj.bias, residual=x)

    def look(self, qkv: Tensor, layer: int, turn: Turn | None, memory: Memory) -> Tensor:
        """What the heads see, [B, T, heads * head_dim]."""
        norms = self.q_norm, self.k_norm
        heads = Heads(qkv, self.heads, self.kv_heads, self.head_dim, *norms, turn, self.norm_weights)
        if isinstance(memory, FusedMemory):
            return memory.attend_heads(layer, heads)
        return memory.attend(layer, *heads.split()).flatten(2)


class GatedMLP(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate_up = FusedLinear(config.hidden, (config.ffn, config.ffn), config.mlp_bias)
        self.down_proj = nn.Linear(config.ffn, config.hidden, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        return linear(fused_linear(x, self.gate_up.weight, self.gate_up.bias, gated=True), self.down_proj)

    def add(self, x: Tensor, norm: nn.Module) -> Tensor:
        """The residual stream `x`, which is given up, and what is added to it."""
        inner = normed_linear(x, norm, self.gate_up.weight, self.gate_up.bias, gated=True)
        return fused_linear(inner, self.down_proj.weight, self.down_proj.bias, residual=x)


class PlainMLP(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden, config.ffn, bias=config.mlp_bias)
        self.fc2 = nn.Linear(config.ffn, config.hidden, bias=config.mlp_bias)
        self.approximate = "tanh" if config.mlp == "gelu_tanh" else "none"

    def forward(self, x: Tensor) -> Tensor:
        return linear(F.gelu(linear(x, self.fc1), approximate=self.approximate), self.fc2)

    def add(self, x: Tensor, norm: nn.Module) -> Tensor:
        return x + self(norm(x))


def normed_linear(
    x: Tensor, norm: nn.Module, weight: Weight, bias: Tensor | None = None, *, gated: bool = False
) -> Tensor:
    """A linear of the norm of `x`, in one go where the norm is of the usual kind."""
    if isinstance(norm, RMSNorm):
        return fused_linear(x, weight, bias, norm=(norm.weight, norm.eps), gated=gated)
    return fused_linear(norm(x), weight, bias, gated=gated)


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
        x = self.self_attn.add(x, self.input_layernorm, layer, turn, memory)
        return self.mlp.add(x, self.post_attention_layernorm)


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
        """`x [B, T, hidden]`, which is given up, turned as `turn` says for its positions."""
        return self.norm(self.run(x, turn, memory))

    def run(self, x: Tensor, turn: Turn | None, memory: Memory) -> Tensor:
        """The same without the last norm."""
        for i, layer in enumerate(self.layers):
            x = layer(x, i, turn, memory)
        return x
