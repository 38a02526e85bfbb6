"""A checkpoint's `config.json`, typed. Imports torch only to build layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError

if TYPE_CHECKING:
    from rhapsode.nn.decoder import DecoderConfig
    from rhapsode.nn.rope import RopeConfig

AUDIO_START, REFERENCE_START, REFERENCE_END = 101, 103, 104
"""Special ids of a prompt: no key of the configuration names them."""


@dataclass(frozen=True)
class LMConfig:
    """Sizes of MiniCPM4 layers; every network of the model has such layers in its own sizes."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    max_position_embeddings: int
    rope_scaling: Mapping[str, Any]
    rope_theta: float
    rms_norm_eps: float
    kv_channels: int = 0
    use_mup: bool = True

    def __post_init__(self) -> None:
        if self.use_mup:
            raise CheckpointError("'use_mup' is true in config.json: VoxCPM2's layers are not scaled by muP.")

    def layers(self, rope: bool = True) -> DecoderConfig:
        """Returns these sizes in the form that the decoder layers of `nn` take."""
        from rhapsode.nn.decoder import DecoderConfig

        head_dim = self.kv_channels or self.hidden_size // self.num_attention_heads
        return DecoderConfig(
            hidden=self.hidden_size,
            ffn=self.intermediate_size,
            layers=self.num_hidden_layers,
            heads=self.num_attention_heads,
            kv_heads=self.num_key_value_heads,
            head_dim=head_dim,
            rope=self._rope(head_dim) if rope else None,
            eps=self.rms_norm_eps,
        )

    def _rope(self, head_dim: int) -> RopeConfig:
        """Returns LongRoPE's factors. They depend on the longest context of the model, not on the length of a text."""
        from rhapsode.nn.rope import RopeConfig

        scaling = parse(RopeScaling, self.rope_scaling, "rope_scaling in config.json")
        original = scaling.original_max_position_embeddings
        longer = self.max_position_embeddings > original
        factors = scaling.long_factor if longer else scaling.short_factor
        if len(factors) != head_dim // 2:
            raise CheckpointError(f"rope_scaling has {len(factors)} factors for heads of {head_dim} channels.")
        ratio = self.max_position_embeddings / original
        scale = math.sqrt(1 + math.log(ratio) / math.log(original))
        return RopeConfig(head_dim, self.rope_theta, tuple(float(factor) for factor in factors), scale)


@dataclass(frozen=True)
class RopeScaling:
    long_factor: tuple[float, ...]
    short_factor: tuple[float, ...]
    original_max_position_embeddings: int


@dataclass(frozen=True)
class LocalConfig:
    """Sizes of a local transformer."""

    hidden_dim: int = 1024
    ffn_dim: int = 4096
    num_heads: int = 16
    num_layers: int = 4
    kv_channels: int = 0
    dit_mean_mode: bool = False
    """Upstream reads this key. Checkpoints write `mean_mode`, which nothing reads."""

    def of(self, lm: LMConfig) -> LMConfig:
        """Returns the language model's configuration in this size."""
        return replace(
            lm,
            hidden_size=self.hidden_dim,
            intermediate_size=self.ffn_dim,
            num_attention_heads=self.num_heads,
            num_hidden_layers=self.num_layers,
            kv_channels=self.kv_channels,
        )


@dataclass(frozen=True)
class PatchConfig:
    """Sizes outside the transformers."""

    patch_size: int = 4
    feat_dim: int = 64
    residual_lm_num_layers: int = 8
    residual_lm_no_rope: bool = False
    scalar_quantization_latent_dim: int = 512
    scalar_quantization_scale: int = 9
    max_length: int = 8192


@dataclass(frozen=True)
class VaeConfig:
    """`audio_vae_config` of config.json; the defaults are upstream's for a key that is not there."""

    encoder_dim: int = 128
    encoder_rates: tuple[int, ...] = (2, 5, 8, 8)
    latent_dim: int = 64
    decoder_dim: int = 2048
    decoder_rates: tuple[int, ...] = (8, 6, 5, 2, 2, 2)
    depthwise: bool = True
    sample_rate: int = 16_000
    out_sample_rate: int = 48_000
    use_noise_block: bool = False
    sr_bin_boundaries: tuple[int, ...] | None = (20_000, 30_000, 40_000)
    """With None the decoder is not conditioned on the sample rate."""
    cond_type: str = "scale_bias"
    cond_out_layer: bool = False

    def __post_init__(self) -> None:
        other_condition = self.cond_out_layer or not self.cond_type.startswith("scale_bias")
        if self.use_noise_block or (self.sr_bin_boundaries is not None and other_condition):
            raise CheckpointError(
                "VoxCPM2's VAE has no noise blocks and a condition of scale and bias; config.json differs."
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any] | None) -> VaeConfig:
        return parse(cls, values or {}, "audio_vae_config in config.json")

    @property
    def encoder_hop(self) -> int:
        """Samples per latent, in the encoder."""
        return math.prod(self.encoder_rates)

    @property
    def hop(self) -> int:
        """Samples per latent, in the decoder."""
        return math.prod(self.decoder_rates)


@dataclass(frozen=True)
class VoxConfig:
    """All of a checkpoint's configuration that prompts and talker use."""

    patch: PatchConfig
    lm: LMConfig
    encoder: LocalConfig
    dit: LocalConfig

    @property
    def residual(self) -> LMConfig:
        return replace(self.lm, num_hidden_layers=self.patch.residual_lm_num_layers)

    @property
    def patch_shape(self) -> tuple[int, int]:
        return self.patch.patch_size, self.patch.feat_dim


def read(config: Mapping[str, Any]) -> VoxConfig:
    """Returns the configuration from the content of `config.json`."""
    where = "config.json"
    return VoxConfig(
        patch=parse(PatchConfig, config, where),
        lm=parse(LMConfig, section(config, "lm_config", where), f"lm_config in {where}"),
        encoder=parse(LocalConfig, section(config, "encoder_config", where), f"encoder_config in {where}"),
        dit=parse(LocalConfig, section(config, "dit_config", where), f"dit_config in {where}"),
    )
