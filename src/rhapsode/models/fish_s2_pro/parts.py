"""Parts of a checkpoint, built and filled: the talker, and the codec's two halves."""

from __future__ import annotations

from pathlib import Path

import torch

from rhapsode.checkpoints.files import first_of, read_file
from rhapsode.checkpoints.folder import parse, read_json
from rhapsode.checkpoints.rotary_halves import RotaryHalves, RotaryRows
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import Tensors, TensorsInMemory, Weights
from rhapsode.models.base import StageContext
from rhapsode.models.fish_s2_pro import net, transformer
from rhapsode.models.fish_s2_pro.codec_config import HEAD_DIM, FishCodecConfig, from_tensors
from rhapsode.models.fish_s2_pro.config import FishConfig, FishLayersConfig
from rhapsode.models.fish_s2_pro.decoder import FishCodecDecoder
from rhapsode.models.fish_s2_pro.encoder import FishCodecEncoder
from rhapsode.models.fish_s2_pro.tokenizer import Tokens
from rhapsode.models.parts import checkpoint_of, fill
from rhapsode.nn import kernels

CODEC, CODEC_SIZES = ("codec.safetensors", "codec.pth"), "codec.json"

STALE = ("*.freqs_cis", "*.causal_mask")
"""Buffers of the codec's training code; they are computed here."""
ENCODER_ONLY = ("encoder.*", "quantizer.downsample.*", "quantizer.pre_module.*", "*.in_proj.*")
DECODER_ONLY = ("decoder.*", "quantizer.upsample.*", "quantizer.post_module.*")


def talker(config: FishConfig, tokens: Tokens, context: StageContext) -> net.FishNet:
    return fill(
        lambda: net.FishNet(config, tokens.semantic_start, tokens.end),
        context,
        lambda: _talker_weights(config, context),
        names=net.NAMES,
        dtype=getattr(torch, context.dtype),
    )


def encoder(context: StageContext) -> FishCodecEncoder:
    config, weights = _codec(context)
    names, ignore = transformer.NAMES, (*STALE, *DECODER_ONLY)
    return fill(lambda: FishCodecEncoder(config), context, lambda: _of(weights), names=names, ignore=ignore)


def decoder(context: StageContext) -> FishCodecDecoder:
    config, weights = _codec(context)
    names, ignore = transformer.NAMES, (*STALE, *ENCODER_ONLY)
    dtype = _codec_dtype(context)
    built = fill(
        lambda: FishCodecDecoder(config), context, lambda: _of(weights), names=names, ignore=ignore, dtype=dtype
    )
    if kernels.on(built.quantizer.tables):
        from rhapsode.models.fish_s2_pro.fused import fuse  # which needs Triton

        fuse(built)
    return built


def _codec_dtype(context: StageContext) -> torch.dtype:
    """Returns the codec's dtype. bfloat16 becomes float32 as upstream, or float16 (more precise) where kernels run."""
    dtype: torch.dtype = getattr(torch, context.dtype)
    if dtype == torch.bfloat16:
        fused = kernels.on(torch.empty(0, dtype=dtype, device=context.device))
        return torch.float16 if fused else torch.float32
    return dtype


def _talker_weights(config: FishConfig, context: StageContext) -> Tensors:
    def rotated(prefix: str, layers: FishLayersConfig) -> dict[str, RotaryRows]:
        dim, heads = layers.head_dim, layers.n_head + layers.n_local_heads
        at = f"{prefix}.layers.*.attention"
        norms = {f"{at}.{one}_norm.weight": RotaryRows(dim, dim) for one in ("q", "k")}
        return {f"{at}.wqkv.*": RotaryRows(heads * dim, dim), **norms}

    pairs = rotated("text_model.model", config.slow) | rotated("audio_decoder", config.fast)
    return RotaryHalves(Weights(checkpoint_of(context)), pairs)


def _codec(context: StageContext) -> tuple[FishCodecConfig, Tensors | None]:
    """Returns the codec's sizes and tensors. With random weights, `codec.json` may have the sizes; tensors are None."""
    folder = checkpoint_of(context)
    if context.random_weights:
        sizes = folder / CODEC_SIZES
        return (parse(FishCodecConfig, read_json(sizes), CODEC_SIZES) if sizes.is_file() else FishCodecConfig()), None
    tensors = _codec_tensors(folder)
    config = from_tensors(tensors)
    dims = {"encoder.*": config.encoder_dim << len(config.encoder_rates), "quantizer.*": config.latent}
    rotated = {f"{where}.attention.wqkv.weight": RotaryRows(2 * dim, HEAD_DIM) for where, dim in dims.items()}
    return config, RotaryHalves(tensors, rotated)


def _codec_tensors(folder: Path) -> TensorsInMemory:
    file = first_of(folder, *CODEC)
    found = {name.removeprefix("generator."): tensor for name, tensor in read_file(file).items()}
    return TensorsInMemory(file, fold_weight_norm(found))


def _of(weights: Tensors | None) -> Tensors:
    assert weights is not None  # they are only asked for where weights are read
    return weights
