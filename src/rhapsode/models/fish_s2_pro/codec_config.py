"""The sizes of a codec. No file of a checkpoint has them: they follow from the shapes of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import prod

from rhapsode.checkpoints.weights import Tensors
from rhapsode.errors import CheckpointError
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.rope import RopeConfig

HEAD_DIM, ROPE_BASE, EPS = 64, 10_000.0, 1e-5
FRAME_WINDOW, ENCODER_WINDOW = 128, 512
"""Positions that a transformer attends to: at the frame rate, and at four times that inside the encoder."""

_KERNEL_STRIDES = 2  # kernel sizes of the convolutions that change the rate, in multiples of their strides


@dataclass(frozen=True)
class FishCodecConfig:
    """The defaults are those of the published codec."""

    latent: int = 1024
    code_dim: int = 8
    semantic_codes: int = 4096
    residual_codes: int = 1024
    residual_books: int = 9
    ratios: tuple[int, ...] = (2, 2)
    """Ratios between the frame rate and the rate of encoder and vocoder."""
    decoder_dim: int = 1536
    decoder_rates: tuple[int, ...] = (8, 8, 4, 2)
    decoder_layers: int = 8
    encoder_dim: int = 64
    encoder_rates: tuple[int, ...] = (2, 4, 8, 8)
    encoder_layers: int = 4
    """Layers of the transformer inside the encoder."""
    feature_layers: int = 8
    """Layers of the transformer at the frame rate, before the quantizer."""
    ffn: int = 3072
    encoder_ffn: int = 3072

    @property
    def hop(self) -> int:
        """Samples per frame."""
        return prod(self.decoder_rates) * prod(self.ratios)

    @property
    def books(self) -> int:
        return 1 + self.residual_books

    def transformer(self, layers: int, dim: int, ffn: int) -> DecoderConfig:
        rope = RopeConfig(HEAD_DIM, ROPE_BASE, rounded=True)
        heads = dim // HEAD_DIM
        return DecoderConfig(dim, ffn, layers, heads, heads, HEAD_DIM, rope, eps=EPS)


def from_tensors(tensors: Tensors) -> FishCodecConfig:
    """Returns a codec's sizes from the shapes of its tensors, in which weight norm is folded."""

    def shape(name: str) -> tuple[int, ...]:
        if name not in tensors:
            raise CheckpointError(f"{tensors.folder} lacks the tensor '{name}'.")
        return tensors.shape(name)

    def layers(path: str) -> int:
        return _count(lambda i: f"{path}.layers.{i}.attention.wqkv.weight" in tensors)

    def strides(path: str, part: str) -> tuple[int, ...]:
        names = [f"{path}.{i}.{part}" for i in range(1, 1 + _count(lambda i: f"{path}.{i + 1}.{part}" in tensors))]
        return tuple(shape(name)[2] // _KERNEL_STRIDES for name in names)

    encoder_rates = strides("encoder.block", "block.4.conv.weight")
    inside = f"encoder.block.{len(encoder_rates)}.block.5"
    ups = _count(lambda i: f"quantizer.upsample.{i}.0.conv.weight" in tensors)
    semantic = shape("quantizer.semantic_quantizer.quantizers.0.codebook.weight")
    config = FishCodecConfig(
        latent=shape("quantizer.semantic_quantizer.quantizers.0.out_proj.weight")[0],
        code_dim=semantic[1],
        semantic_codes=semantic[0],
        residual_codes=shape("quantizer.quantizer.quantizers.0.codebook.weight")[0],
        residual_books=_count(lambda i: f"quantizer.quantizer.quantizers.{i}.codebook.weight" in tensors),
        ratios=tuple(shape(f"quantizer.upsample.{i}.0.conv.weight")[2] for i in range(ups)),
        decoder_dim=shape("decoder.model.0.conv.weight")[0],
        decoder_rates=strides("decoder.model", "block.1.conv.weight"),
        decoder_layers=layers("quantizer.post_module"),
        encoder_dim=shape("encoder.block.0.conv.weight")[0],
        encoder_rates=encoder_rates,
        encoder_layers=layers(inside),
        feature_layers=layers("quantizer.pre_module"),
        ffn=shape("quantizer.post_module.layers.0.feed_forward.w1.weight")[0],
        encoder_ffn=shape(f"{inside}.layers.0.feed_forward.w1.weight")[0],
    )
    if prod(encoder_rates) * prod(config.ratios) != config.hop:
        raise CheckpointError(f"the codec in {tensors.folder} encodes and decodes at different rates.")
    return config


def _count(there: Callable[[int], bool]) -> int:
    return next(i for i in count() if not there(i))
