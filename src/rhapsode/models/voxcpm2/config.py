"""A checkpoint's `config.json`, typed, and what a deployment may set beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError, ConfigError
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.rope import RopeConfig

AUDIO_START, REFERENCE_START, REFERENCE_END = 101, 103, 104
"""Ids that shape a prompt: no key of the configuration names them."""

USUAL_TIMESTEPS = 10
MOST_TIMESTEPS = 100


@dataclass(frozen=True)
class LMConfig:
    """MiniCPM4 layers, as every part of the model has them in its own size."""

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
            raise CheckpointError("layers scaled by muP ('use_mup') are none of VoxCPM2's.")

    def layers(self, rope: bool = True) -> DecoderConfig:
        """In this house's words."""
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
        """LongRoPE: which factors hold is decided by the longest text the model is for, not by the text at hand."""
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
    """The size of a local transformer."""

    hidden_dim: int = 1024
    ffn_dim: int = 4096
    num_heads: int = 16
    num_layers: int = 4
    kv_channels: int = 0
    dit_mean_mode: bool = False
    """Upstream reads this key; checkpoints write `mean_mode`, which nobody reads."""

    def of(self, lm: LMConfig) -> LMConfig:
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
    """Everything outside the transformers."""

    patch_size: int = 4
    feat_dim: int = 64
    residual_lm_num_layers: int = 8
    residual_lm_no_rope: bool = False
    scalar_quantization_latent_dim: int = 512
    scalar_quantization_scale: int = 9
    max_length: int = 8192


@dataclass(frozen=True)
class DeploymentConfig:
    """What a deployment's `options` may set."""

    max_timesteps: int = USUAL_TIMESTEPS
    """On a GPU every patch takes the time of so many Euler steps; a request may ask for fewer, never for more."""
    lora: str = ""
    """An adapter to merge into the weights: a folder with `lora_weights.safetensors`, or such a file."""
    lora_alpha: float = 0.0
    """Its alpha, where no `lora_config.json` beside it says so."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_timesteps <= MOST_TIMESTEPS:
            raise ConfigError(f"max_timesteps must be between 1 and {MOST_TIMESTEPS}.")


@dataclass(frozen=True)
class VoxConfig:
    """Everything prompts and talker need to know of a checkpoint."""

    patch: PatchConfig
    lm: LMConfig
    encoder: LocalConfig
    dit: LocalConfig
    deployment: DeploymentConfig

    @property
    def residual(self) -> LMConfig:
        return replace(self.lm, num_hidden_layers=self.patch.residual_lm_num_layers)

    @property
    def patch_shape(self) -> tuple[int, int]:
        return self.patch.patch_size, self.patch.feat_dim


def read(config: Mapping[str, Any]) -> VoxConfig:
    """From the content of `config.json`, with a deployment's options on top."""
    where = "config.json"
    return VoxConfig(
        patch=parse(PatchConfig, config, where),
        lm=parse(LMConfig, section(config, "lm_config", where), f"lm_config in {where}"),
        encoder=parse(LocalConfig, section(config, "encoder_config", where), f"encoder_config in {where}"),
        dit=parse(LocalConfig, section(config, "dit_config", where), f"dit_config in {where}"),
        deployment=parse(DeploymentConfig, config, "the deployment's options"),
    )
