"""The codec's transformers: causal attention over a window, with the checkpoint's names."""

from __future__ import annotations

from torch import Tensor

from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.windowed import WindowedTransformer, WindowState

NAMES = {
    "self_attn.qkv": "attention.wqkv",
    "self_attn.o_proj": "attention.wo",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn_layer_scale.scale": "attention_layer_scale.gamma",
    "mlp_layer_scale.scale": "ffn_layer_scale.gamma",
    ".act1.": ".block.0.",
    ".conv1.": ".block.1.",
    ".act2.": ".block.2.",
    ".conv2.": ".block.3.",
}
"""What the checkpoint calls the tensors of transformers and of residual units."""


class CodecTransformer(WindowedTransformer):
    """A windowed transformer with a norm at its end, for `[B, T, dim]`."""

    def __init__(self, config: DecoderConfig, window: int) -> None:
        super().__init__(config, window)
        self.norm = RMSNorm(config.hidden, config.eps)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: WindowState | None = None) -> Tensor:
        return self.norm(super().forward(x, slots, state))


class ChannelTransformer(CodecTransformer):
    """A `CodecTransformer` between convolutions, for `[B, dim, T]`."""

    def forward(self, x: Tensor, slots: Tensor | None = None, state: WindowState | None = None) -> Tensor:
        return super().forward(x.transpose(1, 2), slots, state).transpose(1, 2)
