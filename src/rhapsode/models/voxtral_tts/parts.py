"""Parts of a checkpoint, built and filled: the talker, and the codec's two halves."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.checkpoints.rotary_halves import RotaryHalves, RotaryRows
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import Tensors, TensorsInMemory, Weights
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.parts import checkpoint_of, fill
from rhapsode.models.voxtral_tts.codec_config import VoxtralCodecConfig
from rhapsode.models.voxtral_tts.codec_net import Codebooks, VoxtralCodecDecoder, VoxtralCodecEncoder
from rhapsode.models.voxtral_tts.config import VoxtralConfig, read_codec
from rhapsode.models.voxtral_tts.net import VoxtralTalkerNet
from rhapsode.nn.quantizer import Codebook

CODEC = "audio_tokenizer."
CODEBOOK = "quantizer.semantic_codebook."
ENCODER = ("input_proj.*", "encoder_blocks.*")
DECODER = ("output_proj.*", "decoder_blocks.*")
MISTRAL_NAMES = {
    "self_attn_layer_scale.scale": "attention_scale",
    "mlp_layer_scale.scale": "ffn_scale",
    "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo",
    "self_attn.": "attention.",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
}
"""Our names and the checkpoint's, for the parts of a layer."""


def talker(config: VoxtralConfig, context: StageContext) -> VoxtralTalkerNet:
    others = (f"{CODEC}*", "acoustic_transformer.time_embedding.inv_freq")
    backbone = config.backbone
    rotated = {
        "layers.*.attention.wq.weight": RotaryRows(backbone.n_heads * backbone.head_dim, backbone.head_dim),
        "layers.*.attention.wk.weight": RotaryRows(backbone.n_kv_heads * backbone.head_dim, backbone.head_dim),
    }

    def weights() -> Tensors:
        return RotaryHalves(Weights(checkpoint_of(context), every=True), rotated)

    dtype: torch.dtype = getattr(torch, context.dtype)
    return fill(lambda: VoxtralTalkerNet(config), context, weights, ignore=others, dtype=dtype, names=MISTRAL_NAMES)


def decoder(context: StageContext) -> VoxtralCodecDecoder:
    dtype: torch.dtype = getattr(torch, context.dtype)
    config = read_codec(context.config)
    net = fill(
        lambda: VoxtralCodecDecoder(config),
        context,
        lambda: _codec_weights(context),
        prefix=CODEC,
        ignore=(f"{CODEBOOK}*", *ENCODER),
        dtype=dtype,
        names=MISTRAL_NAMES,
    )
    net.codebooks = Codebooks(config, _vectors(config, context, dtype))
    return net


def encoder(context: StageContext) -> VoxtralCodecEncoder:
    """Returns the codec's encoder, in float32: its results are rounded to codes."""
    config = read_codec(context.config)
    net = fill(
        lambda: VoxtralCodecEncoder(config),
        context,
        lambda: _codec_weights(context),
        prefix=CODEC,
        ignore=(f"{CODEBOOK}*", *DECODER),
        names=MISTRAL_NAMES,
    )
    net.codebooks = Codebooks(config, _vectors(config, context, torch.float32))
    return net


def _vectors(config: VoxtralCodecConfig, context: StageContext, dtype: torch.dtype) -> Tensor:
    """Returns the vectors of the semantic codes: sums divided by counts in float32 or more, then rounded to `dtype`."""
    book = fill(
        lambda: Codebook(config.semantic_codebook_size, config.semantic_dim),
        context,
        lambda: Weights(checkpoint_of(context), every=True),
        prefix=f"{CODEC}{CODEBOOK}",
        dtype=torch.promote_types(dtype, torch.float32),
    )
    return book.vectors().to(dtype)


def _codec_weights(context: StageContext) -> Tensors:
    """Returns the codec's tensors with weight norm folded."""
    weights = Weights(checkpoint_of(context), every=True)
    names = [name for name in weights if name.startswith(CODEC)]
    if not names:
        raise CheckpointError(f"{weights.folder} lacks the codec: no tensor's name begins with '{CODEC}'.")
    tensors = fold_weight_norm({name: weights.read(name) for name in names})
    return TensorsInMemory(weights.file_of(names[0]), tensors)
