"""The codec's `config.json`, typed. Imports torch only to build layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError

if TYPE_CHECKING:
    from rhapsode.nn.decoder import DecoderConfig

PATCH, TRANSFORMER = "PatchedPretransform", "Transformer"


@dataclass(frozen=True)
class LevelConfig:
    """A transformer between two changes of the token rate."""

    input_dimension: int
    output_dimension: int
    d_model: int
    num_heads: int
    num_layers: int
    dim_feedforward: int
    context_duration: float
    layer_scale: float
    max_period: float = 10_000.0
    causal: bool = True
    norm: str = "layer_norm"
    gating: str = "none"
    positional_embedding: str = "rope"

    def __post_init__(self) -> None:
        known = (True, "layer_norm", "none", "rope")
        if (self.causal, self.norm, self.gating, self.positional_embedding) != known:
            raise CheckpointError("the codec's transformers are causal, with LayerNorm, without gates and with RoPE.")

    def layers(self) -> DecoderConfig:
        from rhapsode.nn.decoder import DecoderConfig
        from rhapsode.nn.rope import RopeConfig

        head_dim = self.d_model // self.num_heads
        return DecoderConfig(
            hidden=self.d_model,
            ffn=self.dim_feedforward,
            layers=self.num_layers,
            heads=self.num_heads,
            kv_heads=self.num_heads,
            head_dim=head_dim,
            rope=RopeConfig(head_dim, self.max_period),
            norm="layer",
            eps=1e-5,
            mlp="gelu",
        )


@dataclass(frozen=True)
class MossQuantizerConfig:
    input_dim: int
    rvq_dim: int
    output_dim: int
    codebook_dim: int
    codebook_size: int
    num_quantizers: int


@dataclass(frozen=True)
class _Sampled:
    sampling_rate: int
    number_channels: int
    enable_channel_interleave: bool
    downsample_rate: int
    quantizer_type: str


Step = int | LevelConfig
"""A change of the token rate by this factor, or a transformer."""


@dataclass(frozen=True)
class MossCodecConfig:
    sampling_rate: int
    number_channels: int
    hop: int
    """Samples of a frame, per channel."""
    quantizer: MossQuantizerConfig
    encoder: tuple[Step, ...]
    decoder: tuple[Step, ...]

    def rates(self, steps: Sequence[Step], first: float) -> list[float]:
        """Returns the tokens per second after each step of the encoder (`first` is the rate of samples), or before each
        step of the decoder, given in reverse order."""
        found, rate = [], first
        for step in steps:
            rate = rate / step if isinstance(step, int) else rate
            found.append(rate)
        return found

    @property
    def encoder_windows(self) -> list[int]:
        """Returns how many tokens each step of the encoder attends to; 0 for a change of the rate."""
        return self._windows(self.encoder, self.rates(self.encoder, self._samples_hz))

    @property
    def decoder_windows(self) -> list[int]:
        backwards = self.decoder[::-1]
        return self._windows(backwards, self.rates(backwards, self._samples_hz))[::-1]

    @property
    def _samples_hz(self) -> float:
        return float(self.sampling_rate * self.number_channels)

    @staticmethod
    def _windows(steps: Sequence[Step], rates: Sequence[float]) -> list[int]:
        pairs = zip(steps, rates, strict=True)
        return [0 if isinstance(step, int) else round(rate * step.context_duration) for step, rate in pairs]


def read(config: Mapping[str, Any]) -> MossCodecConfig:
    """Returns the configuration from the content of the codec's `config.json`."""
    where = "the codec's config.json"
    plain = parse(_Sampled, config, where)
    if plain.quantizer_type != "rlfq":
        raise CheckpointError(f"'quantizer_type' is '{plain.quantizer_type}'; known: rlfq.")
    if plain.number_channels > 1 and not plain.enable_channel_interleave:
        raise CheckpointError("channels that are not interleaved are not supported.")
    found = MossCodecConfig(
        plain.sampling_rate,
        plain.number_channels,
        plain.downsample_rate,
        parse(MossQuantizerConfig, section(config, "quantizer_kwargs", where), f"quantizer_kwargs of {where}"),
        _steps(config, "encoder_kwargs", where),
        _steps(config, "decoder_kwargs", where),
    )
    for steps in (found.encoder, found.decoder):
        if math.prod(step for step in steps if isinstance(step, int)) != found.hop * found.number_channels:
            raise CheckpointError(f"the patches of {where} do not make frames of {found.hop} samples.")
    return found


def _steps(config: Mapping[str, Any], key: str, where: str) -> tuple[Step, ...]:
    steps = config.get(key)
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        raise CheckpointError(f"'{key}' is missing from {where}.")
    return tuple(_step(step, f"{key} of {where}") for step in steps)


def _step(step: Mapping[str, Any], where: str) -> Step:
    kind, size = step.get("module_type"), step.get("patch_size")
    if kind == PATCH and isinstance(size, int) and size > 0:
        return size
    if kind != TRANSFORMER:
        raise CheckpointError(f"{where} has a step '{kind}'; known: {PATCH} with a patch_size, {TRANSFORMER}.")
    return parse(LevelConfig, step, where)
