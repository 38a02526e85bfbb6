"""A checkpoint's `params.json`, typed. Imports torch only to build layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError
from rhapsode.models.voxtral_tts.codec_config import VoxtralCodecConfig, numbers

if TYPE_CHECKING:
    from rhapsode.nn.decoder import DecoderConfig

FILE = "params.json"
EMPTY, END, OFFSET = 0, 1, 2
"""Special codes of every codebook, and the number at which the codes of sound begin."""
PADDED_TO = 128
"""Embeddings and the semantic head have a multiple of this many rows; the last ones are unused."""


@dataclass(frozen=True, kw_only=True)
class VoxtralLayersConfig:
    """Sizes of a stack of layers, in Mistral's words."""

    dim: int
    n_layers: int
    head_dim: int
    hidden_dim: int
    n_heads: int
    n_kv_heads: int
    norm_eps: float = 1e-5
    use_biases: bool = False

    def __post_init__(self) -> None:
        if self.use_biases:
            raise CheckpointError(f"'use_biases' is true in {FILE}: Voxtral-TTS layers have no biases.")

    def layers(self, rope_theta: float | None) -> DecoderConfig:
        """Returns these sizes in the form that the decoder layers of `nn` take. No `rope_theta`: without positions."""
        from rhapsode.nn.decoder import DecoderConfig
        from rhapsode.nn.rope import RopeConfig

        return DecoderConfig(
            hidden=self.dim,
            ffn=self.hidden_dim,
            layers=self.n_layers,
            heads=self.n_heads,
            kv_heads=self.n_kv_heads,
            head_dim=self.head_dim,
            rope=None if rope_theta is None else RopeConfig(self.head_dim, rope_theta),
            eps=self.norm_eps,
        )


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(VoxtralLayersConfig):
    vocab_size: int
    rope_theta: float
    max_seq_len: int = 65_536


@dataclass(frozen=True, kw_only=True)
class FlowConfig(VoxtralLayersConfig):
    """`acoustic_transformer_args`."""

    input_dim: int
    n_decoding_steps: int = 7
    """Euler steps; released files leave this key out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_decoding_steps < 1:
            raise CheckpointError(f"'n_decoding_steps' of {FILE} must be at least 1, not {self.n_decoding_steps}.")


@dataclass(frozen=True)
class CodesConfig:
    """The codes of a frame: one semantic code, then acoustic levels."""

    semantic_codebook_size: int = 0
    acoustic_codebook_size: int = 0
    n_acoustic_codebook: int = 0
    codebook_sizes: str = ""
    """All sizes in one text, with commas: the semantic one, then one per acoustic codebook."""
    input_embedding_concat_type: str = "sum"

    def __post_init__(self) -> None:
        if self.codebook_sizes:
            first, *others = numbers(self.codebook_sizes, "codebook_sizes")
            if len(set(others)) != 1:
                raise CheckpointError(f"'codebook_sizes' of {FILE} must give all acoustic codebooks the same size.")
            object.__setattr__(self, "semantic_codebook_size", first)
            object.__setattr__(self, "acoustic_codebook_size", others[0])
            object.__setattr__(self, "n_acoustic_codebook", len(others))
        if min(self.semantic_codebook_size, self.acoustic_codebook_size - 1, self.n_acoustic_codebook) < 1:
            raise CheckpointError(f"audio_model_args in {FILE} must give the sizes of the codebooks.")
        if self.input_embedding_concat_type != "sum":
            kind = self.input_embedding_concat_type
            raise CheckpointError(f"'input_embedding_concat_type' is '{kind}'; Voxtral-TTS sums the embeddings.")

    @property
    def semantic_rows(self) -> int:
        return OFFSET + self.semantic_codebook_size

    @property
    def acoustic_rows(self) -> int:
        return OFFSET + self.acoustic_codebook_size

    @property
    def books(self) -> int:
        """Codes per frame."""
        return 1 + self.n_acoustic_codebook


def padded(rows: int) -> int:
    return -(-rows // PADDED_TO) * PADDED_TO


@dataclass(frozen=True)
class VoxtralConfig:
    backbone: BackboneConfig
    flow: FlowConfig
    codes: CodesConfig
    codec: VoxtralCodecConfig

    def __post_init__(self) -> None:
        width, condition = self.flow.dim, self.flow.input_dim
        if (width, condition) != (self.backbone.dim, self.backbone.dim):
            raise CheckpointError(
                f"acoustic_transformer_args in {FILE} is {condition} wide at its input and {width} inside; both must be"
                f" the backbone's {self.backbone.dim}."
            )
        ours, theirs = self.codes, self.codec
        sizes = (ours.semantic_codebook_size, ours.acoustic_codebook_size, ours.n_acoustic_codebook)
        if sizes != (theirs.semantic_codebook_size, theirs.acoustic_codebook_size, theirs.acoustic_dim):
            raise CheckpointError(f"audio_model_args and audio_tokenizer_args in {FILE} have codebooks of other sizes.")


def read(config: Mapping[str, Any]) -> VoxtralConfig:
    """Returns the configuration from the content of `params.json`."""
    multimodal = section(config, "multimodal", FILE)
    model = section(multimodal, "audio_model_args", f"multimodal in {FILE}")
    flow = section(model, "acoustic_transformer_args", f"audio_model_args in {FILE}")
    return VoxtralConfig(
        backbone=parse(BackboneConfig, config, FILE),
        flow=parse(FlowConfig, flow, f"acoustic_transformer_args in {FILE}"),
        codes=parse(CodesConfig, model, f"audio_model_args in {FILE}"),
        codec=read_codec(config),
    )


def read_codec(config: Mapping[str, Any]) -> VoxtralCodecConfig:
    """Returns the codec's part of `params.json`."""
    tokenizer = section(section(config, "multimodal", FILE), "audio_tokenizer_args", f"multimodal in {FILE}")
    return parse(VoxtralCodecConfig, tokenizer, f"audio_tokenizer_args in {FILE}")
