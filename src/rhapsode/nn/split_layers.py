"""Decoder layers over a few dozen rows, whose products are bound by latency: see `nn.kernels.split`."""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn import kernels
from rhapsode.nn.attention import AttentionBackend
from rhapsode.nn.decoder import DecoderLayer, DecoderStack, GatedMLP
from rhapsode.nn.kernels.linear import SMALL_BATCH
from rhapsode.nn.kernels.norm import rms_norm
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.kernels.split import MAX_ROWS, SHARE, add_and_norm, split_product
from rhapsode.nn.kernels.weight import Norm
from rhapsode.nn.linear import linear, weight_of
from rhapsode.nn.norm import RMSNorm


def runs_split(stack: DecoderStack, x: Tensor) -> bool:
    """Whether `run_split` is for this stack and this many rows: more than the small-batch kernel serves well."""
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
    first = _norm(layers[0].input_layernorm)
    normed = rms_norm(x, first.weight, first.eps)
    for i, layer in enumerate(layers):
        attention, mlp = layer.self_attn, layer.mlp
        assert isinstance(mlp, GatedMLP)
        attended = attention.attend_projected(linear(normed, attention.qkv), i, rotary, backend)
        normed = add_and_norm(x, _split(attended, attention.o_proj), _norm(layer.post_attention_layernorm))
        inner = linear(normed, mlp.gate_up, gated=True)
        after = _norm(layers[i + 1].input_layernorm) if i + 1 < len(layers) else None
        normed = add_and_norm(x, _split(inner, mlp.down_proj), after)
    return x


def _split(x: Tensor, layer: nn.Linear) -> Tensor:
    weight = weight_of(layer)
    assert isinstance(weight, Tensor)
    return split_product(x, weight)


def _norm(module: nn.Module) -> Norm:
    assert isinstance(module, RMSNorm)
    return Norm(module.weight, module.eps)
