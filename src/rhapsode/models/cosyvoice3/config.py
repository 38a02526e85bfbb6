"""A checkpoint's `cosyvoice3.yaml` and the Qwen2 config beside it, typed. The YAML is data: no tag of it is executed.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.folder import parse, read_config, section
from rhapsode.checkpoints.tagged_yaml import resolved
from rhapsode.errors import CheckpointError

YAML = "cosyvoice3.yaml"
QWEN = "CosyVoice-BlankEN"
"""The folder with the language model's config and tokenizer. The weights in it are not those to serve."""
SPECIAL_SPEECH_TOKENS = 200
"""Rows of the speech tables after the speech tokens; upstream has this number in its code."""


@dataclass(frozen=True)
class CosyLayersConfig:
    """Sizes of the language model."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    rope_theta: float = 1_000_000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 32_768
    head_dim: int = 0
    hidden_act: str = "silu"
    use_sliding_window: bool = False

    def __post_init__(self) -> None:
        if not self.head_dim:
            object.__setattr__(self, "head_dim", self.hidden_size // self.num_attention_heads)
        if self.use_sliding_window or self.hidden_act != "silu":
            raise CheckpointError(
                f"CosyVoice3's layers have no sliding window and use SiLU; {QWEN}/config.json says otherwise."
            )


@dataclass(frozen=True)
class CosySamplingConfig:
    """Repetition-aware sampling: an id that is too frequent among the last `win_size` ids is replaced by a new draw."""

    top_p: float
    top_k: int
    win_size: int
    tau_r: float

    def __post_init__(self) -> None:
        if self.win_size < 1 or self.limit < 1:
            raise CheckpointError(
                f"'win_size' {self.win_size} and 'tau_r' {self.tau_r} of 'sampling' in {YAML} must be above 0."
            )

    @property
    def limit(self) -> int:
        """How often an id must be among the last `win_size` ids to be replaced."""
        return ceil(self.win_size * self.tau_r)


@dataclass(frozen=True)
class CosySpeechConfig:
    """The language model's section of the YAML."""

    speech_token_size: int
    llm_input_size: int
    mix_ratio: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.mix_ratio) != 2 or min(self.mix_ratio) < 1:
            raise CheckpointError(f"'mix_ratio' of 'llm' in {YAML} must be two counts, not {list(self.mix_ratio)}.")


@dataclass(frozen=True)
class CosyRatesConfig:
    """Rates and sizes at the top of the YAML."""

    sample_rate: int
    token_frame_rate: int
    token_mel_ratio: int
    chunk_size: int
    spk_embed_dim: int


@dataclass(frozen=True)
class CosyMelConfig:
    """Settings of the mel spectrogram of references."""

    n_fft: int
    num_mels: int
    sampling_rate: int
    hop_size: int
    fmin: float = 0.0
    fmax: float | None = None


@dataclass(frozen=True)
class CosyConfig:
    """All of a checkpoint's configuration."""

    layers: CosyLayersConfig
    speech: CosySpeechConfig
    sampling: CosySamplingConfig
    rates: CosyRatesConfig
    mel: CosyMelConfig
    flow: Mapping[str, Any]
    """The section of the flow as plain data, references resolved."""
    vocoder: Mapping[str, Any]
    """The section `hift` as plain data, references resolved."""

    @property
    def codes(self) -> int:
        """The number of speech tokens that can be heard; ids from this number on are special."""
        return self.speech.speech_token_size

    @property
    def speech_rows(self) -> int:
        """Rows of the speech embedding and of the head."""
        return self.codes + SPECIAL_SPEECH_TOKENS

    @property
    def sos(self) -> int:
        return self.codes

    @property
    def task(self) -> int:
        return self.codes + 2

    @property
    def fill(self) -> int:
        return self.codes + 3

    def tokens_of(self, seconds: float) -> int:
        """Returns how many speech tokens `seconds` of speech have."""
        return int(seconds * self.rates.token_frame_rate)


def read(config: Mapping[str, Any], folder: Path) -> CosyConfig:
    """Returns the configuration from the content of `cosyvoice3.yaml` and the folder it is in."""
    llm, flow, vocoder, mel = (_plain(config, name) for name in ("llm", "flow", "hift", "feat_extractor"))
    layers = parse(CosyLayersConfig, read_config(folder / QWEN), f"{QWEN}/config.json")
    speech = parse(CosySpeechConfig, llm, f"'llm' in {YAML}")
    if speech.llm_input_size != layers.hidden_size:
        raise CheckpointError(
            f"'llm_input_size' is {speech.llm_input_size} in {YAML}, but 'hidden_size' is {layers.hidden_size} in "
            f"{QWEN}/config.json: they must agree."
        )
    return CosyConfig(
        layers=layers,
        speech=speech,
        sampling=parse(CosySamplingConfig, section(llm, "sampling", f"'llm' in {YAML}"), f"'sampling' in {YAML}"),
        rates=parse(CosyRatesConfig, {key: resolved(config.get(key), config) for key in _rate_keys()}, YAML),
        mel=parse(CosyMelConfig, mel, f"'feat_extractor' in {YAML}"),
        flow=flow,
        vocoder=vocoder,
    )


def _plain(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    plain: Mapping[str, Any] = resolved(section(config, name, YAML), config)
    return plain


def _rate_keys() -> tuple[str, ...]:
    return tuple(CosyRatesConfig.__dataclass_fields__)
