"""A checkpoint's `config.json`, typed: both layouts of v2, and v3. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError

SPECIAL_CODES = 2
"""Ids of a codebook after its real codes: the begin and the end of a stream."""
LLAMA_THETA, QWEN_THETA = 500_000.0, 1_000_000.0
"""Values of `rope_theta` for files that have none, or null."""


@dataclass(frozen=True)
class HiggsRope:
    """Rotary frequencies; the last four fields are those of Llama 3's scaling."""

    rope_theta: float | None = None
    rope_type: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192

    def __post_init__(self) -> None:
        if self.rope_type not in ("default", "llama3"):
            raise CheckpointError(
                f"'rope_type' is '{self.rope_type}' in config.json; default and llama3 are supported."
            )


@dataclass(frozen=True)
class HiggsBody:
    """Sizes of the language model."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int = 0
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False

    def __post_init__(self) -> None:
        if not self.head_dim:
            object.__setattr__(self, "head_dim", self.hidden_size // self.num_attention_heads)
        if self.hidden_act != "silu" or self.mlp_bias:
            raise CheckpointError("Higgs has feed-forward networks with SiLU and without biases; config.json differs.")


@dataclass(frozen=True)
class HiggsConfig:
    """All of a checkpoint's configuration that prompts and talker use."""

    body: HiggsBody
    rope: HiggsRope
    theta: float
    books: int
    codes: int
    """Real codes of a codebook, without the special ids."""
    generation: Literal[2, 3]
    tied: bool = False
    """Whether the embedding of codes is the head, too (v3)."""
    original: bool = False
    """Whether tensors have the names of v2's first release."""
    audio_token_id: int | None = None
    """The token at the audio positions of v2's prompts, if the file has it."""


@dataclass(frozen=True)
class _V2Audio:
    num_codebooks: int
    codebook_size: int
    audio_stream_bos_id: int
    audio_stream_eos_id: int
    audio_token_id: int | None = None


@dataclass(frozen=True)
class _OriginalAudio:
    audio_num_codebooks: int
    audio_codebook_size: int
    audio_stream_bos_id: int
    audio_stream_eos_id: int
    audio_out_token_idx: int | None = None
    audio_adapter_type: str = "dual_ffn_fast_forward"
    audio_dual_ffn_layers: tuple[int, ...] | None = None
    audio_decoder_proj_num_layers: int = 0
    audio_embed_avg: bool = False
    use_audio_out_embed_projector: bool = False
    use_delay_pattern: bool = True


@dataclass(frozen=True)
class _V3Audio:
    num_codebooks: int
    vocab_size: int
    encoder_type: str = "discrete"
    tie_word_embeddings: bool = True
    use_delay_pattern: bool = True


def read_v2(config: Mapping[str, Any]) -> HiggsConfig:
    """Returns the configuration of a v2 checkpoint in either layout, from the content of `config.json`."""
    if config.get("model_type") == "higgs_audio":
        return _read_original(config)
    audio = parse(_V2Audio, config, "config.json")
    codes = audio.codebook_size - SPECIAL_CODES
    _check_specials(audio.audio_stream_bos_id, audio.audio_stream_eos_id, codes)
    rope = parse(HiggsRope, config.get("rope_parameters") or {}, "rope_parameters in config.json")
    return HiggsConfig(
        parse(HiggsBody, config, "config.json"),
        rope,
        rope.rope_theta or LLAMA_THETA,
        _several(audio.num_codebooks),
        codes,
        generation=2,
        audio_token_id=audio.audio_token_id,
    )


def _read_original(config: Mapping[str, Any]) -> HiggsConfig:
    text = section(config, "text_config", "config.json")
    audio = parse(_OriginalAudio, config, "config.json")
    body = parse(HiggsBody, text, "text_config in config.json")
    _check_specials(audio.audio_stream_bos_id, audio.audio_stream_eos_id, audio.audio_codebook_size)
    whole = audio.audio_dual_ffn_layers in (None, tuple(range(body.num_hidden_layers)))
    if not audio.audio_adapter_type.startswith("dual_ffn") or not whole:
        raise CheckpointError("every layer of Higgs v2 has an audio feed-forward network; config.json differs.")
    if audio.audio_decoder_proj_num_layers or audio.audio_embed_avg or audio.use_audio_out_embed_projector:
        raise CheckpointError("config.json asks for audio projections that no release of Higgs v2 has.")
    if not audio.use_delay_pattern:
        raise CheckpointError("'use_delay_pattern' is false in config.json; only the delay pattern is supported.")
    rope = parse(HiggsRope, text.get("rope_scaling") or {}, "rope_scaling in config.json")
    return HiggsConfig(
        body,
        rope,
        _theta(text) or LLAMA_THETA,
        _several(audio.audio_num_codebooks),
        audio.audio_codebook_size,
        generation=2,
        original=True,
        audio_token_id=audio.audio_out_token_idx,
    )


def read_v3(config: Mapping[str, Any]) -> HiggsConfig:
    """Returns the configuration of a v3 checkpoint, from the content of `config.json`."""
    text = section(config, "text_config", "config.json")
    audio = parse(
        _V3Audio, section(config, "audio_encoder_config", "config.json"), "audio_encoder_config in config.json"
    )
    if audio.encoder_type != "discrete" or not audio.use_delay_pattern:
        raise CheckpointError("audio_encoder_config in config.json must be discrete, with the delay pattern.")
    scaling = text.get("rope_parameters") or text.get("rope_scaling") or {}
    rope = parse(HiggsRope, scaling, "rope_scaling in config.json")
    return HiggsConfig(
        parse(HiggsBody, {"rms_norm_eps": 1e-6, **text}, "text_config in config.json"),
        rope,
        rope.rope_theta or _theta(text) or QWEN_THETA,
        _several(audio.num_codebooks),
        audio.vocab_size - SPECIAL_CODES,
        generation=3,
        tied=audio.tie_word_embeddings,
    )


def _theta(text: Mapping[str, Any]) -> float | None:
    return parse(HiggsRope, {"rope_theta": text.get("rope_theta")}, "text_config in config.json").rope_theta


def _several(books: int) -> int:
    if books < 2:
        raise CheckpointError(f"a delay pattern needs two codebooks or more; config.json has {books}.")
    return books


def _check_specials(begin: int, end: int, codes: int) -> None:
    if (begin, end) != (codes, codes + 1):
        raise CheckpointError(
            f"the begin and the end of a stream must be the ids after the {codes} codes of a codebook; config.json has"
            f" {begin} and {end}."
        )
