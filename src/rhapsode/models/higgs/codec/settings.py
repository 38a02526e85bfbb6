"""The sizes of the codec, from its config.json in the layout of transformers. Imports no torch.

The checkpoint of v3 has no such file: the defaults here are the published values, which both versions use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log2, prod
from pathlib import Path
from typing import Any, NamedTuple

from rhapsode.checkpoints.folder import parse, read_json, section
from rhapsode.errors import CheckpointError

CONFIG = "config.json of the codec"
KERNEL, DILATIONS = 7, (1, 3, 9)
"""Convolution sizes of the residual units in the acoustic encoder and decoder; no config has them."""


@dataclass(frozen=True)
class DacSettings:
    """`acoustic_model_config`: the encoder and the decoder of the waveform."""

    hidden_size: int = 256
    encoder_hidden_size: int = 64
    decoder_hidden_size: int = 1024
    downsampling_ratios: tuple[int, ...] = (8, 5, 4, 2, 3)
    upsampling_ratios: tuple[int, ...] = (8, 5, 4, 2, 3)


@dataclass(frozen=True)
class HubertSettings:
    """The section `semantic_model_config`: sizes of the HuBERT model whose hidden states are the semantic features."""

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    conv_dim: tuple[int, ...] = (512,) * 7
    conv_kernel: tuple[int, ...] = (10, 3, 3, 3, 3, 2, 2)
    conv_stride: tuple[int, ...] = (5, 2, 2, 2, 2, 2, 2)
    conv_bias: bool = False
    num_conv_pos_embeddings: int = 128
    num_conv_pos_embedding_groups: int = 16
    layer_norm_eps: float = 1e-5
    feat_extract_norm: str = "group"
    feat_extract_activation: str = "gelu"
    feat_proj_layer_norm: bool = True
    hidden_act: str = "gelu"
    do_stable_layer_norm: bool = False
    conv_pos_batch_norm: bool = False

    def frames(self, samples: int) -> int:
        """Returns the number of frames that the convolutions make from `samples` samples."""
        for kernel, stride in zip(self.conv_kernel, self.conv_stride, strict=True):
            samples = (samples - kernel) // stride + 1
        return max(samples, 0)


class Context(NamedTuple):
    """Frames before and after its own that a frame's samples depend on."""

    before: int
    after: int


@dataclass(frozen=True)
class CodecSettings:
    """The whole codec: RVQ between the two encoders and the decoder."""

    codebook_size: int = 1024
    codebook_dim: int = 64
    target_bandwidths: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0)
    sample_rate: int = 24_000
    semantic_sample_rate: int = 16_000
    downsample_factor: int = 320
    kernel_size: int = 3
    unit_kernel_size: int = 3
    channel_ratios: tuple[float, ...] = (1, 1)
    strides: tuple[int, ...] = (1, 1)
    block_dilations: tuple[int, ...] = (1, 1)
    acoustic: DacSettings = field(default_factory=DacSettings)
    semantic: HubertSettings = field(default_factory=HubertSettings)

    @classmethod
    def of(cls, folder: Path) -> CodecSettings:
        """Reads config.json of the codec's folder. Without one in this layout, the values are the published ones."""
        config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
        return cls.from_dict(config) if "acoustic_model_config" in config else cls()

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> CodecSettings:
        """Reads the codec's config.json; a missing key has its published value."""
        acoustic = parse(DacSettings, section(config, "acoustic_model_config", CONFIG), CONFIG)
        semantic = parse(HubertSettings, section(config, "semantic_model_config", CONFIG), CONFIG)
        settings = replace(parse(cls, config, CONFIG), acoustic=acoustic, semantic=semantic)
        if "codebook_dim" in config and config["codebook_dim"] is None:
            settings = replace(settings, codebook_dim=settings.latent)
        settings.check()
        return settings

    def check(self) -> None:
        """Raises if the codec has settings that the modules do not support."""
        semantic, acoustic = self.semantic, self.acoustic
        lengths = {len(semantic.conv_dim), len(semantic.conv_kernel), len(semantic.conv_stride)}
        kinds = {
            "feat_extract_norm": (semantic.feat_extract_norm, "group"),
            "feat_extract_activation": (semantic.feat_extract_activation, "gelu"),
            "hidden_act": (semantic.hidden_act, "gelu"),
            "do_stable_layer_norm": (semantic.do_stable_layer_norm, False),
            "conv_pos_batch_norm": (semantic.conv_pos_batch_norm, False),
            "feat_proj_layer_norm": (semantic.feat_proj_layer_norm, True),
            "strides": (self.strides, (1,) * len(self.channel_ratios)),
            "product of upsampling_ratios": (prod(acoustic.upsampling_ratios), self.hop),
            "number of convolution sizes": (len(lengths), 1),
        }
        for name, (found, wanted) in kinds.items():
            if found != wanted:
                raise CheckpointError(f"{CONFIG}: '{name}' is {found!r}; this codec is computed only with {wanted!r}.")
        if self.quantizers < 1:
            raise CheckpointError(f"{CONFIG}: the bandwidths {self.target_bandwidths} leave no codebook.")
        if self.semantic_stride < 1:
            raise CheckpointError(f"{CONFIG}: a frame of {self.hop} samples is shorter than a semantic feature.")

    @property
    def hop(self) -> int:
        """Samples per frame."""
        return prod(self.acoustic.downsampling_ratios)

    @property
    def frame_rate(self) -> int:
        """Frames per second, rounded up: the number of codebooks is computed from it."""
        return ceil(self.sample_rate / self.hop)

    @property
    def quantizers(self) -> int:
        """Codebooks per frame: as many as the largest bandwidth, in kbit/s, has room for."""
        bits = ceil(log2(self.codebook_size))
        return int(1000 * self.target_bandwidths[-1] // (self.frame_rate * bits))

    @property
    def latent(self) -> int:
        """The size of the vectors to quantize: acoustic and semantic features side by side."""
        return self.acoustic.hidden_size + self.semantic.hidden_size

    @property
    def semantic_stride(self) -> int:
        """Semantic features per frame; one of them is used."""
        return self.hop * self.semantic_sample_rate // (self.sample_rate * self.downsample_factor)

    def acoustic_frames(self, samples: int) -> int:
        """Returns the number of frames that the acoustic encoder makes from `samples` samples."""
        for rate in self.acoustic.downsampling_ratios:
            samples = (samples + 2 * ((rate + 1) // 2) - 2 * rate) // rate + 1
        return max(samples, 0)

    def semantic_frames(self, samples: int, padding: int) -> int:
        """Returns the number of frames that the semantic model makes with `padding` zeros on each side of its input."""
        coarse = -(-samples * self.semantic_sample_rate // self.sample_rate) + 2 * padding
        return -(-self.semantic.frames(coarse) // self.semantic_stride)

    @property
    def context(self) -> Context:
        """Frames on both sides that a frame of audio depends on."""
        rates = self.acoustic.upsampling_ratios
        return Context(-_first_input(0, rates), _last_input(self.hop - 1, rates))


def _first_input(sample: int, rates: Sequence[int]) -> int:
    """Returns the first frame that a sample of the decoder depends on."""
    half = KERNEL // 2
    at = sample - half
    for rate in reversed(rates):
        at = -(-(at - half * sum(DILATIONS) + (rate + 1) // 2 - 2 * rate + 1) // rate)
    return at - half


def _last_input(sample: int, rates: Sequence[int]) -> int:
    """Returns the last frame that a sample of the decoder depends on."""
    half = KERNEL // 2
    at = sample + half
    for rate in reversed(rates):
        at = (at + half * sum(DILATIONS) + (rate + 1) // 2) // rate
    return at + half
