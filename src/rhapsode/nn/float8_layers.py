"""Decoder layers with 8-bit weights, for more rows than the small-batch kernels serve.

Residual products give partial sums; the kernel that adds them up applies the next norm, and makes of the result what
the next product takes.
"""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn import kernels
from rhapsode.nn.attention import AttentionBackend
from rhapsode.nn.decoder import DecoderLayer, DecoderStack, GatedMLP
from rhapsode.nn.kernels.linear import SMALL_BATCH, takes_float8
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.kernels.split import add_and_norm
from rhapsode.nn.kernels.weight import Float8Weight, Norm
from rhapsode.nn.linear import weight_of
from rhapsode.nn.norm import RMSNorm


def runs_float8(stack: DecoderStack, x: Tensor) -> bool:
    """Whether `run_float8` is for this stack and this many rows."""
    config, rows, first = stack.config, x.numel() // x.shape[-1], stack.layers[0]
    fits = config.norm == "rms" and config.mlp == "swiglu" and not config.output_bias
    if not (kernels.on(x) and fits and rows > SMALL_BATCH and isinstance(first, DecoderLayer)):
        return False
    return isinstance(weight_of(first.self_attn.o_proj), Float8Weight) and takes_float8(x)


def run_float8(stack: DecoderStack, x: Tensor, rotary: RotaryAngles | None, backend: AttentionBackend) -> Tensor:
    """Runs all layers on `x [B, T, hidden]` and returns the result. A contiguous `x` is overwritten."""
    from rhapsode.nn.kernels.gpu.float8 import float8_parts, float8_product
    from rhapsode.nn.kernels.gpu.float8_input import float8_input

    x = x.contiguous()
    parts: Tensor | None = None
    for i, layer in enumerate(stack.layers):
        assert isinstance(layer, DecoderLayer)
        attention, mlp = layer.self_attn, layer.mlp
        assert isinstance(mlp, GatedMLP)
        normed = float8_input(x, _norm(layer.input_layernorm), parts)
        qkv = float8_product(normed, _weight(attention.qkv), x.dtype, attention.qkv.bias)
        attended = attention.attend_projected(qkv.view(*x.shape[:-1], -1), i, rotary, backend)
        parts = float8_parts(float8_input(attended.contiguous()), _weight(attention.o_proj))
        normed = float8_input(x, _norm(layer.post_attention_layernorm), parts)
        inner = float8_product(normed, _weight(mlp.gate_up), x.dtype, gated=True)
        parts = float8_parts(float8_input(inner), _weight(mlp.down_proj))
    assert parts is not None
    return add_and_norm(x, parts, None)


def _weight(layer: nn.Linear) -> Float8Weight:
    weight = weight_of(layer)
    assert isinstance(weight, Float8Weight)
    return weight


def _norm(module: nn.Module) -> Norm:
    assert isinstance(module, RMSNorm)
    return Norm(module.weight, module.eps)
