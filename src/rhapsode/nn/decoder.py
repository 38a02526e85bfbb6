"""The decoder layer of every family: pre-norm, grouped-query attention, and a gated or plain feed-forward network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn

from rhapsode.device.kv import KVLayout
from rhapsode.nn.attention import AttentionBackend, FusedAttentionBackend, PagesAttention
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.activation import Gelu, gelu
from rhapsode.nn.kernels.cpu.layers import StackProgram
from rhapsode.nn.kernels.heads import HeadNorm, ProjectedHeads, stack_norms
from rhapsode.nn.kernels.linear import SMALL_BATCH, takes_float8
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.kernels.split import add_and_norm
from rhapsode.nn.kernels.weight import Float8Weight
from rhapsode.nn.linear import FusedLinear, float8_weight_of, linear, normed_linear, rms_norm_of, weight_of
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.rope import Rope, RopeConfig

if TYPE_CHECKING:
    from rhapsode.nn.kernels.gpu.float8_input import Float8Input


class LayerSizes(Protocol):
    """The sizes of a stack, in the words of a checkpoint's config.json."""

    @property
    def hidden_size(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...
    @property
    def num_hidden_layers(self) -> int: ...
    @property
    def num_attention_heads(self) -> int: ...
    @property
    def num_key_value_heads(self) -> int: ...


@dataclass(frozen=True)
class DecoderConfig:
    """The shape of a stack of decoder layers."""

    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope: RopeConfig | None
    """`None`: attention without positions."""
    qk_norm: bool = False
    qk_norm_width: Literal["head", "all heads"] = "head"
    """What one norm of queries or keys covers: each head, or all heads together."""
    qk_norm_eps: float | None = None
    """`None`: the same as `eps`."""
    norm: Literal["rms", "layer"] = "rms"
    eps: float = 1e-6
    mlp: Literal["swiglu", "gelu", "gelu_tanh"] = "swiglu"
    """`gelu_tanh` is GELU by the formula with a hyperbolic tangent."""
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    """For the feed-forward networks with GELU."""

    @classmethod
    def of(cls, sizes: LayerSizes, head_dim: int, rope: RopeConfig | None, **options: Any) -> DecoderConfig:
        """Takes the sizes from a checkpoint's config; `options` are the fields after `rope`."""
        return cls(
            hidden=sizes.hidden_size,
            ffn=sizes.intermediate_size,
            layers=sizes.num_hidden_layers,
            heads=sizes.num_attention_heads,
            kv_heads=sizes.num_key_value_heads,
            head_dim=head_dim,
            rope=rope,
            **options,
        )

    def kv(self) -> KVLayout:
        return KVLayout(self.layers, self.kv_heads, self.head_dim)


class Attention(Derived):
    """Grouped-query attention; the backend keeps the keys and values."""

    norm_weights: Tensor | None  # of queries and keys, once derived

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.qkv = FusedLinear(config.hidden, (queries, keys, keys), config.attention_bias)
        self.o_proj = nn.Linear(queries, config.hidden, bias=config.output_bias)
        self._per_head = config.qk_norm_width == "head"
        widths = (config.head_dim, config.head_dim) if self._per_head else (queries, keys)
        eps = config.eps if config.qk_norm_eps is None else config.qk_norm_eps
        self.q_norm = RMSNorm(widths[0], eps) if config.qk_norm else None
        self.k_norm = RMSNorm(widths[1], eps) if config.qk_norm else None
        self.register_buffer("norm_weights", None, persistent=False)

    def derive(self) -> None:
        if self.q_norm is not None and self.k_norm is not None and self._per_head:
            self.norm_weights = stack_norms(self.q_norm.weight, self.heads, self.k_norm.weight, self.kv_heads)

    def forward(self, x: Tensor, layer: int, rotary: RotaryAngles | None, backend: AttentionBackend) -> Tensor:
        """Returns the attention output of normed `x [B, T, hidden]`, without the residual."""
        return linear(self.attend_projected(linear(x, self.qkv), layer, rotary, backend), self.o_proj)

    def add_to(
        self,
        x: Tensor,
        norm: nn.Module,
        layer: int,
        rotary: RotaryAngles | None,
        backend: AttentionBackend,
        last: int | None = None,
    ) -> Tensor:
        """Returns `x + attention(norm(x))`, of the `last` tokens alone if given; `x` may be overwritten."""
        qkv = normed_linear(x, norm, weight_of(self.qkv), self.qkv.bias)
        attended = self.attend_projected(qkv, layer, rotary, backend)
        if last is not None:
            x, attended = x[:, -last:].contiguous(), attended[:, -last:].contiguous()
        return linear(attended, self.o_proj, residual=x)

    def add_float8_to(
        self, x: Tensor, normed: Float8Input, layer: int, rotary: RotaryAngles | None, backend: AttentionBackend
    ) -> Tensor | None:
        """Does what `add_to` does, with 8-bit weights: `x [B, T, hidden]` is overwritten, `normed` is its norm.

        Returns partial sums `[shares, rows, hidden]` that are still to be added to `x`, if there are any.
        """
        from rhapsode.nn.kernels.gpu.float8 import float8_add, float8_product
        from rhapsode.nn.kernels.gpu.float8_input import float8_input

        qkv = float8_product(normed, float8_weight_of(self.qkv), x.dtype, self.qkv.bias)
        attended = self.attend_projected(qkv.view(*x.shape[:-1], -1), layer, rotary, backend)
        return float8_add(x, float8_input(attended.contiguous()), float8_weight_of(self.o_proj))

    def attend_projected(
        self, qkv: Tensor, layer: int, rotary: RotaryAngles | None, backend: AttentionBackend
    ) -> Tensor:
        """Returns the attention of projected tokens, `[B, T, heads * head_dim]`, before the output projection."""
        norm = None
        if self.q_norm is not None and self.k_norm is not None:
            if self._per_head:
                norm = HeadNorm(self.q_norm.weight, self.k_norm.weight, self.q_norm.eps, self.norm_weights)
            else:
                query, key, value = qkv.split(self.qkv.sizes, dim=-1)
                qkv = torch.cat((self.q_norm(query.contiguous()), self.k_norm(key.contiguous()), value), dim=-1)
        heads = ProjectedHeads(qkv, self.heads, self.kv_heads, self.head_dim, norm, rotary)
        if isinstance(backend, FusedAttentionBackend):
            return backend.attend_heads(layer, heads)
        return backend.attend(layer, *heads.split()).flatten(2)


class GatedMLP(nn.Module):
    """The feed-forward network of most families (SwiGLU): `down(silu(gate(x)) * up(x))`."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate_up = FusedLinear(config.hidden, (config.ffn, config.ffn))
        self.down_proj = nn.Linear(config.ffn, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return linear(linear(x, self.gate_up, gated=True), self.down_proj)

    def add_to(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Returns `x + mlp(norm(x))`; `x` may be overwritten."""
        inner = normed_linear(x, norm, weight_of(self.gate_up), gated=True)
        return linear(inner, self.down_proj, residual=x)

    def add_float8_to(self, x: Tensor, normed: Float8Input) -> Tensor | None:
        """Does what `add_to` does, with 8-bit weights: see `Attention.add_float8_to`."""
        from rhapsode.nn.kernels.gpu.float8 import float8_add, float8_product
        from rhapsode.nn.kernels.gpu.float8_input import float8_input

        inner = float8_product(normed, float8_weight_of(self.gate_up), x.dtype, gated=True)
        return float8_add(x, float8_input(inner), float8_weight_of(self.down_proj))


class PlainMLP(nn.Module):
    """Two linear layers with a GELU between them."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden, config.ffn, bias=config.mlp_bias)
        self.fc2 = nn.Linear(config.ffn, config.hidden, bias=config.mlp_bias)
        self._activation: Gelu = "gelu_tanh" if config.mlp == "gelu_tanh" else "gelu"

    def forward(self, x: Tensor) -> Tensor:
        return linear(gelu(linear(x, self.fc1), self._activation), self.fc2)

    def add_to(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Returns `x + mlp(norm(x))`; `x` may be overwritten."""
        inner = normed_linear(x, norm, weight_of(self.fc1), self.fc1.bias, activation=self._activation)
        return linear(inner, self.fc2, residual=x)


def make_norm(config: DecoderConfig) -> nn.Module:
    return RMSNorm(config.hidden, config.eps) if config.norm == "rms" else nn.LayerNorm(config.hidden, config.eps)


class DecoderLayer(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.input_layernorm = make_norm(config)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = make_norm(config)
        self.mlp = GatedMLP(config) if config.mlp == "swiglu" else PlainMLP(config)

    def forward(self, x: Tensor, layer: int, rotary: RotaryAngles | None, backend: AttentionBackend) -> Tensor:
        x = self.self_attn.add_to(x, self.input_layernorm, layer, rotary, backend)
        return self.mlp.add_to(x, self.post_attention_layernorm)

    def last_tokens(
        self, x: Tensor, last: int, layer: int, rotary: RotaryAngles | None, backend: AttentionBackend
    ) -> Tensor:
        """Returns the output of the last tokens alone, [B, last, hidden]: the other tokens are only attended to."""
        x = self.self_attn.add_to(x, self.input_layernorm, layer, rotary, backend, last)
        return self.mlp.add_to(x, self.post_attention_layernorm)


class DecoderStack(nn.Module):
    """A stack of decoder layers: embeddings to normed hidden states. The attention backend holds all state."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = make_norm(config)
        self.rope = Rope(config.rope) if config.rope else None
        self.program: StackProgram | None = None
        """The same layers, packed for a CPU: decode steps and short prompts use them."""

    def rotary(self, positions: Tensor, dtype: torch.dtype) -> RotaryAngles | None:
        """Returns the rotary angles of `positions [B, T]`; `None` for a stack without positions."""
        return self.rope(positions, dtype) if self.rope else None

    def forward(self, x: Tensor, rotary: RotaryAngles | None, backend: AttentionBackend) -> Tensor:
        """Runs `x [B, T, hidden]`, which may be overwritten; `rotary` holds the angles of its positions."""
        return self.norm(self.run_layers(x, rotary, backend))

    def run_layers(self, x: Tensor, rotary: RotaryAngles | None, backend: AttentionBackend) -> Tensor:
        """Does what `forward` does, without the final norm."""
        if self.program is not None and isinstance(backend, PagesAttention) and backend.takes(x):
            return backend.run(self.program, x, rotary)
        if self.runs_float8(x):
            return self._run_float8(x, rotary, backend)
        for i, layer in enumerate(self.layers):
            x = layer(x, i, rotary, backend)
        return x

    def runs_float8(self, x: Tensor) -> bool:
        """Returns whether layers have 8-bit weights, and `x` has more rows than the small-batch kernels support."""
        config, first = self.config, self.layers[0]
        fits = config.norm == "rms" and config.mlp == "swiglu" and not config.output_bias
        if not (fits and isinstance(first, DecoderLayer) and x.numel() > SMALL_BATCH * x.shape[-1]):
            return False
        return takes_float8(x) and isinstance(weight_of(first.self_attn.o_proj), Float8Weight)

    def _run_float8(self, x: Tensor, rotary: RotaryAngles | None, backend: AttentionBackend) -> Tensor:
        """Runs all layers with 8-bit weights. A contiguous `x` is overwritten.

        What a layer adds to `x` may come as partial sums. One kernel adds them, applies the next norm, and converts
        the result to what the next product takes.
        """
        from rhapsode.nn.kernels.gpu.float8_input import float8_input

        x = x.contiguous()
        parts: Tensor | None = None
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, DecoderLayer)
            assert isinstance(layer.mlp, GatedMLP)
            normed = float8_input(x, rms_norm_of(layer.input_layernorm), parts)
            parts = layer.self_attn.add_float8_to(x, normed, i, rotary, backend)
            normed = float8_input(x, rms_norm_of(layer.post_attention_layernorm), parts)
            parts = layer.mlp.add_float8_to(x, normed)
        return x if parts is None else add_and_norm(x, parts, None)
