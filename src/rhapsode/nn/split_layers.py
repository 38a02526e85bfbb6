"""Runs decoder layers over a few dozen rows, whose products are bound by latency: see `nn.kernels.split`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.nn import kernels
from rhapsode.nn.attention import AttentionBackend
from rhapsode.nn.decoder import DecoderLayer, DecoderStack, GatedMLP
from rhapsode.nn.kernels.linear import SMALL_BATCH
from rhapsode.nn.kernels.norm import rms_norm
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.kernels.split import MAX_ROWS, SHARE, add_and_norm, split_product
from rhapsode.nn.linear import linear, rms_norm_of, weight_of


def runs_split(stack: DecoderStack, x: Tensor) -> bool:
    """Returns whether `run_split` supports this stack and this many rows: more than the small-batch kernel does."""
    config, rows = stack.config, x.numel() // x.shape[-1]
    fits = config.norm == "rms" and config.mlp == "swiglu" and not config.output_bias
    shares = config.ffn % SHARE == 0 and config.heads * config.head_dim % SHARE == 0
    return kernels.on(x) and SMALL_BATCH < rows <= MAX_ROWS and fits and shares and _is_plain(stack)


def _is_plain(stack: DecoderStack) -> bool:
    first = stack.layers[0]
    return isinstance(first, DecoderLayer) and isinstance(weight_of(first.self_attn.o_proj), Tensor)


def run_split(stack: DecoderStack, x: Tensor, rotary: RotaryAngles | None, backend: AttentionBackend) -> Tensor:
    """Runs all layers on `x [B, T, hidden]` and returns the result. A contiguous `x` is overwritten."""
    x = x.contiguous()
    layers = [layer for layer in stack.layers if isinstance(layer, DecoderLayer)]
    first = rms_norm_of(layers[0].input_layernorm)
    normed = rms_norm(x, first.weight, first.eps)
    for i, layer in enumerate(layers):
        attention, mlp = layer.self_attn, layer.mlp
        assert isinstance(mlp, GatedMLP)
        qkv = _linear(normed, attention.qkv, not stack.config.attention_bias)
        attended = attention.attend_projected(qkv, i, rotary, backend)
        normed = add_and_norm(x, _split(attended, attention.o_proj), rms_norm_of(layer.post_attention_layernorm))
        inner = _linear(normed, mlp.gate_up, True, gated=True)
        after = rms_norm_of(layers[i + 1].input_layernorm) if i + 1 < len(layers) else None
        normed = add_and_norm(x, _split(inner, mlp.down_proj), after)
    return x


def _linear(x: Tensor, layer: nn.Linear, ahead: bool, gated: bool = False) -> Tensor:
    weight = weight_of(layer)
    if ahead and isinstance(weight, Tensor) and x.dtype != torch.float32:
        from rhapsode.nn.kernels.gpu.ahead import ahead_linear
        from rhapsode.nn.kernels.gpu.linear_plan import ahead_plan

        width = len(weight) // 2 if gated else len(weight)
        plan = ahead_plan(x.numel() // x.shape[-1], width, x.shape[-1], gated)
        if plan is not None:
            return ahead_linear(x, weight, plan, gated=gated)
    return linear(x, layer, gated=gated)


def _split(x: Tensor, layer: nn.Linear) -> Tensor:
    weight = weight_of(layer)
    assert isinstance(weight, Tensor)
    return split_product(x, weight)
