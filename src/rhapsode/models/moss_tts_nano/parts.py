"""Parts of a checkpoint, built and filled: the talker, and the codec's two halves."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.checkpoints.folder import read_config
from rhapsode.checkpoints.rotary_halves import RotaryHalves, RotaryRows
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import Tensors, TensorsInMemory, open_weights
from rhapsode.models.base import StageContext
from rhapsode.models.moss_tts_nano.codec_config import MossCodecConfig
from rhapsode.models.moss_tts_nano.codec_config import read as read_codec
from rhapsode.models.moss_tts_nano.codec_net import MossCodecDecoder, MossCodecEncoder
from rhapsode.models.moss_tts_nano.config import MossConfig
from rhapsode.models.moss_tts_nano.net import MossNet
from rhapsode.models.parts import checkpoint_of, fill

_TIED = ("audio_lm_heads.*", "text_lm_head.weight", "local_transformer.wte.weight")
"""Tensors that are not read: heads, which are tied to embeddings, and an unused embedding in some checkpoints."""

# Names of modules here, and in the two checkpoints.
_TALKER_NAMES = {
    ".layers.": ".h.",
    ".input_layernorm.": ".ln_1.",
    ".post_attention_layernorm.": ".ln_2.",
    ".self_attn.qkv": ".attn.c_attn",
    ".self_attn.o_proj.": ".attn.c_proj.",
    ".mlp.fc1.": ".mlp.fc_in.",
    ".mlp.fc2.": ".mlp.fc_out.",
    ".norm.": ".ln_f.",
}
_CODEC_NAMES = {
    ".input_layernorm.": ".norm1.",
    ".post_attention_layernorm.": ".norm2.",
    ".self_attn.qkv": ".self_attn.in_proj",
    ".self_attn.o_proj.": ".self_attn.out_proj.",
    ".mlp.fc1.": ".ffn.0.",
    ".mlp.fc2.": ".ffn.2.",
    ".self_attn_layer_scale.": ".layer_scale_1.",
    ".mlp_layer_scale.": ".layer_scale_2.",
}
_OLDER_CODEC_NAMES = {
    ".in_proj_weight": ".in_proj.weight",
    ".in_projs.0.": ".in_proj.",
    ".out_projs.0.": ".out_proj.",
    ".linear1.": ".ffn.0.",
    ".linear2.": ".ffn.2.",
}


def talker(config: MossConfig, context: StageContext) -> MossNet:
    width, heads = config.layers.n_embd, config.layers.n_head
    rotated = {"*.attn.c_attn.*": RotaryRows(2 * width, width // heads)}
    return fill(
        lambda: MossNet(config),
        context,
        lambda: RotaryHalves(open_weights(checkpoint_of(context)), rotated),
        ignore=_TIED,
        dtype=getattr(torch, context.dtype),
        names=_TALKER_NAMES,
    )


def decoder(context: StageContext) -> MossCodecDecoder:
    config = codec_config(context)
    return fill(
        lambda: MossCodecDecoder(config),
        context,
        lambda: _codec_weights(config, context),
        ignore=("encoder.*",),
        dtype=getattr(torch, context.dtype),
        names=_CODEC_NAMES,
    )


def encoder(context: StageContext) -> MossCodecEncoder:
    config = codec_config(context)
    return fill(
        lambda: MossCodecEncoder(config),
        context,
        lambda: _codec_weights(config, context),
        ignore=("decoder.*",),
        names=_CODEC_NAMES,
    )


def codec_config(context: StageContext) -> MossCodecConfig:
    return read_codec(read_config(context.companion("codec")))


def _codec_weights(config: MossCodecConfig, context: StageContext) -> Tensors:
    """Returns the codec's tensors by their newer names; weight norm is folded, 1x1 convolutions are linear layers."""
    stored = open_weights(context.companion("codec"))
    named = {_todays_name(name): stored.read(name) for name in stored}
    file = stored.file_of(next(iter(stored))) if named else stored.folder
    tensors = {name: _linear(name, tensor) for name, tensor in fold_weight_norm(named).items()}
    rotated = {
        f"{half}.{i}.*.self_attn.in_proj.weight": RotaryRows(2 * step.d_model, step.d_model // step.num_heads)
        for half, steps in (("encoder", config.encoder), ("decoder", config.decoder))
        for i, step in enumerate(steps)
        if not isinstance(step, int)
    }
    return RotaryHalves(TensorsInMemory(file, tensors), rotated)


def _linear(name: str, tensor: Tensor) -> Tensor:
    is_conv = name.startswith("quantizer.") and tensor.ndim == 3 and tensor.shape[2] == 1
    return tensor[:, :, 0] if is_conv else tensor


def _todays_name(name: str) -> str:
    for older, newer in _OLDER_CODEC_NAMES.items():
        name = name.replace(older, newer)
    return name
