"""A checkpoint's `config.json`, typed. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError


@dataclass(frozen=True)
class FishLayersConfig:
    """Sizes of the layers of the slow or of the fast model."""

    dim: int
    intermediate_size: int
    n_layer: int
    n_head: int
    n_local_heads: int
    vocab_size: int
    head_dim: int = 0
    rope_base: float = 1_000_000.0
    norm_eps: float = 1e-6
    attention_qk_norm: bool = False
    attention_qkv_bias: bool = False
    attention_o_bias: bool = False
    tie_word_embeddings: bool = False
    use_moe: bool = False

    def __post_init__(self) -> None:
        if not self.head_dim:
            object.__setattr__(self, "head_dim", self.dim // self.n_head)
        if self.use_moe:
            raise CheckpointError("'use_moe' is true in config.json; layers with experts are not supported.")


@dataclass(frozen=True)
class SlowConfig(FishLayersConfig):
    """The slow model: one token per frame."""

    max_seq_len: int = 32_768

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tie_word_embeddings:
            raise CheckpointError("'tie_word_embeddings' of text_config must be true: the embedding is the head, too.")


@dataclass(frozen=True)
class FastConfig(FishLayersConfig):
    """The fast model: the codes of one frame."""

    num_codebooks: int = 10
    text_dim: int = 0


@dataclass(frozen=True)
class FishTokensConfig:
    """Ids that the tokenizer's files may lack."""

    eos_token_id: int
    semantic_start_token_id: int
    semantic_end_token_id: int


@dataclass(frozen=True)
class FishConfig:
    """All of a checkpoint's configuration that prompts and talker use."""

    slow: SlowConfig
    fast: FastConfig
    tokens: FishTokensConfig

    @property
    def books(self) -> int:
        """The number of codes per frame."""
        return self.fast.num_codebooks

    @property
    def codes(self) -> int:
        """The number of values that a code can have."""
        return self.fast.vocab_size


def read(config: Mapping[str, Any]) -> FishConfig:
    """Returns the configuration from the content of `config.json`."""
    text = section(config, "text_config", "config.json")
    audio = section(config, "audio_decoder_config", "config.json")
    # Upstream takes these two from the slow model's section.
    shared = {key: text[key] for key in ("rope_base", "norm_eps") if key in text}
    tokens = parse(FishTokensConfig, config, "config.json")
    fast = parse(FastConfig, {**audio, **shared}, "audio_decoder_config in config.json")
    semantic = tokens.semantic_end_token_id - tokens.semantic_start_token_id + 1
    if semantic != fast.vocab_size:
        raise CheckpointError(
            f"config.json has {semantic} semantic tokens, but 'vocab_size' of audio_decoder_config is "
            f"{fast.vocab_size}: they must agree."
        )
    return FishConfig(parse(SlowConfig, text, "text_config in config.json"), fast, tokens)
