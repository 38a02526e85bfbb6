"""Decoder stacks with their weights packed for the C kernels of a CPU."""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn.decoder import Attention, DecoderLayer, DecoderStack, GatedMLP
from rhapsode.nn.kernels.cpu.layers import LayerWeights, StackProgram, StackSizes
from rhapsode.nn.kernels.int8 import Int8Weight
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.quantised import Int8Quantised
from rhapsode.nn.windowed import WindowedLayer, WindowedTransformer

MOST_WEIGHTS = 100_000_000
"""A stack with more weights is not packed: packing copies them, and reading them takes most of the time anyway."""


def packed_stack(stack: DecoderStack | WindowedTransformer) -> StackProgram | None:
    """Packs a stack; `None` where the kernels do not support it."""
    layers = [_weights(layer) for layer in stack.layers]
    config = stack.config
    eps = config.eps if config.qk_norm_eps is None else config.qk_norm_eps
    given = (config.hidden, config.ffn, config.heads, config.kv_heads, config.head_dim, config.eps, eps)
    sizes = StackSizes(*given)
    known = [layer for layer in layers if layer is not None]
    count = sum(_size(weight) for layer in known for weight in layer[:4])
    if len(known) < len(layers) or not sizes.supported or count > MOST_WEIGHTS:
        return None
    return StackProgram(known, sizes)


def _weights(layer: nn.Module) -> LayerWeights | None:
    plain = type(layer) in (DecoderLayer, WindowedLayer)  # a family's own layers may compute something else
    if not plain or not isinstance(layer, DecoderLayer) or not isinstance(layer.mlp, GatedMLP):
        return None
    attention, mlp = layer.self_attn, layer.mlp
    linears = (attention.qkv, attention.o_proj, mlp.gate_up, mlp.down_proj)
    norms = (layer.input_layernorm, layer.post_attention_layernorm)
    products = [_product(linear.weight) for linear in linears]
    of_one_kind = len({isinstance(product, Tensor) for product in products}) == 1
    if any(product is None for product in products) or not of_one_kind or not _per_head(attention):
        return None
    if not all(isinstance(norm, RMSNorm) for norm in norms):
        return None
    query, key = (None if norm is None else norm.weight for norm in (attention.q_norm, attention.k_norm))
    given = (*products, *(norm.weight for norm in norms), query, key)
    weights = LayerWeights._make((*given, attention.qkv.bias, attention.o_proj.bias))
    return _scaled(weights, layer) if isinstance(layer, WindowedLayer) else weights


def _product(weight: Tensor | nn.Module) -> Tensor | Int8Weight | None:
    if isinstance(weight, Int8Quantised):
        return weight.packed
    return weight if isinstance(weight, Tensor) else None


def _size(weight: Tensor | Int8Weight) -> int:
    return (weight if isinstance(weight, Tensor) else weight.values).numel()


def _scaled(weights: LayerWeights, layer: WindowedLayer) -> LayerWeights | None:
    """Multiplies the scales of a layer's outputs into its weights; `None` for 8-bit weights."""
    if not isinstance(weights.output, Tensor) or not isinstance(weights.down, Tensor):
        return None
    attended, fed = layer.self_attn_layer_scale.scale, layer.mlp_layer_scale.scale
    output, down, bias = weights.output * attended[:, None], weights.down * fed[:, None], weights.output_bias
    return weights._replace(output=output, down=down, output_bias=None if bias is None else bias * attended)


def _per_head(attention: Attention) -> bool:
    return attention.q_norm is None or len(attention.q_norm.weight) == attention.head_dim
