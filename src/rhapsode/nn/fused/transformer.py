"""A codec's windowed transformer in five launches per layer."""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn.decoder import Attention, GatedMLP
from rhapsode.nn.fused.pack import float32, linear_weights
from rhapsode.nn.kernels.gpu.conv import conv
from rhapsode.nn.kernels.gpu.ring_attention import ring_attention
from rhapsode.nn.windowed import WindowedLayer, WindowedTransformer, WindowState


def supports(net: WindowedTransformer) -> bool:
    """Returns whether the kernels support this transformer."""
    c = net.config
    return (
        net.window is not None
        and net.rope is not None
        and c.norm == "rms"
        and c.mlp == "swiglu"
        and c.heads == c.kv_heads
        and c.head_dim >= 16
        and c.head_dim & (c.head_dim - 1) == 0
        and not c.qk_norm
    )


def _weight(norm: nn.Module) -> Tensor:
    assert isinstance(norm.weight, Tensor)
    return norm.weight


class _PackedLayer:
    def __init__(self, layer: WindowedLayer) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        assert isinstance(attention, Attention)
        assert isinstance(mlp, GatedMLP)
        self.qkv = linear_weights(attention.qkv, _weight(layer.input_layernorm))
        self.o_proj = linear_weights(attention.o_proj)
        self.gate_up = linear_weights(mlp.gate_up, _weight(layer.post_attention_layernorm))
        self.down_proj = linear_weights(mlp.down_proj)
        self.attention_scale = float32(layer.self_attn_layer_scale.scale)
        self.mlp_scale = float32(layer.mlp_layer_scale.scale)


class FusedTransformer:
    """Runs the layers of a `WindowedTransformer` on its state, with its weights packed."""

    def __init__(self, net: WindowedTransformer) -> None:
        assert net.rope is not None
        self._layers = [_PackedLayer(layer) for layer in net.layers if isinstance(layer, WindowedLayer)]
        self._inv_freq, self._rounded = net.rope.inv_freq.float(), net.rope.rounded
        self._config = net.config

    def __call__(self, x: Tensor, slots: Tensor, state: WindowState) -> None:
        """Replaces `x [B, T, hidden]` by the last layer's output; the caller advances `state.position` by T.

        `x` should be float32: it is a small tensor here, and the error of sixteen roundings would be audible.
        """
        c = self._config
        batch, length, _ = x.shape
        qkv = state.ring.new_empty(batch, length, 3 * c.heads * c.head_dim)
        attended = qkv.new_empty(batch, length, c.heads * c.head_dim)
        gated = qkv.new_empty(batch, length, c.ffn)
        for i, layer in enumerate(self._layers):
            conv(x, layer.qkv, norm_eps=c.eps, out=qkv)
            ring_attention(qkv, attended, state.ring, state.position, slots, self._inv_freq, i, self._rounded)
            conv(attended, layer.o_proj, scale=layer.attention_scale, residual=x, out=x)
            conv(x, layer.gate_up, norm_eps=c.eps, function="swiglu", out=gated)
            conv(gated, layer.down_proj, scale=layer.mlp_scale, residual=x, out=x)
