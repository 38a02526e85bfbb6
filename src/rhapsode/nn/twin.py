"""A decoder stack whose layers have two sets of norms and feed-forward networks: each position uses one of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.nn.attention import AttentionBackend
from rhapsode.nn.decoder import DecoderConfig, DecoderLayer, DecoderStack, GatedMLP, make_norm
from rhapsode.nn.kernels.rotary import RotaryAngles


class TwinLayer(DecoderLayer):
    """A decoder layer with a second set of norms and feed-forward network, for audio. Attention has one set."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.audio_input_layernorm = make_norm(config)
        self.audio_post_attention_layernorm = make_norm(config)
        self.audio_mlp = GatedMLP(config)

    def all_audio(self, x: Tensor, layer: int, rotary: RotaryAngles | None, backend: AttentionBackend) -> Tensor:
        """Runs positions that are all audio, as those of decode steps are, without reading the other set."""
        x = self.self_attn.add_to(x, self.audio_input_layernorm, layer, rotary, backend)
        return self.audio_mlp.add_to(x, self.audio_post_attention_layernorm)

    def mixed(
        self, x: Tensor, is_audio: Tensor, layer: int, rotary: RotaryAngles | None, backend: AttentionBackend
    ) -> Tensor:
        """Runs positions of both kinds: both sets are computed everywhere, and `is_audio [B, T, 1]` chooses.

        Choosing on the device lets any mixture run in one captured launch.
        """
        normed = torch.where(is_audio, self.audio_input_layernorm(x), self.input_layernorm(x))
        x = x + self.self_attn(normed, layer, rotary, backend)
        audio = self.audio_mlp(self.audio_post_attention_layernorm(x))
        return x + torch.where(is_audio, audio, self.mlp(self.post_attention_layernorm(x)))


class TwinStack(DecoderStack):
    """A stack of `TwinLayer`s with one final norm."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(TwinLayer(config) for _ in range(config.layers))

    def run_layers(
        self, x: Tensor, rotary: RotaryAngles | None, backend: AttentionBackend, is_audio: Tensor | None = None
    ) -> Tensor:
        """Runs `x [B, T, hidden]` without the final norm; `is_audio [B, T]` is `None` if all positions are audio."""
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, TwinLayer)
            if is_audio is None:
                x = layer.all_audio(x, i, rotary, backend)
            else:
                x = layer.mixed(x, is_audio[..., None], i, rotary, backend)
        return x
