"""Encodes text with the checkpoint's Qwen3 tokenizer, and reads the ids of its control tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rhapsode.checkpoints.tokenizer import Encode, added_tokens, text_encoder
from rhapsode.errors import CheckpointError
from rhapsode.models.fish_s2_pro.config import FishConfig

PHONEMES = ("<|phoneme_start|>", "<|phoneme_end|>")
"""The only control tokens that a text may hold; others are read as the characters they consist of."""


@dataclass(frozen=True)
class Tokens:
    """The control tokens of a prompt."""

    begin: int
    """`<|im_start|>`."""
    end: int
    """`<|im_end|>`."""
    voice: int
    semantic_start: int
    phonemes: tuple[int, ...] = ()
    """Begin and end of phonemes; empty where the tokenizer lacks them."""


def read_tokens(folder: Path, config: FishConfig) -> Tokens:
    """Returns the control tokens of a checkpoint. Ids in the tokenizer's files take precedence over `config.json`."""
    known = {"<|im_end|>": config.tokens.eos_token_id, "<|semantic:0|>": config.tokens.semantic_start_token_id}
    known |= added_tokens(folder)
    phonemes = tuple(known[name] for name in PHONEMES if name in known)

    def token(name: str) -> int:
        if name not in known:
            raise CheckpointError(f"the tokenizer in {folder} lacks the token '{name}'.")
        if not 0 <= known[name] < config.slow.vocab_size:
            raise CheckpointError(f"'{name}' is token {known[name]}; the model has only {config.slow.vocab_size}.")
        return known[name]

    if token("<|semantic:0|>") + config.codes > config.slow.vocab_size:
        raise CheckpointError(f"the model in {folder} has fewer tokens than its {config.codes} semantic ones need.")
    return Tokens(
        token("<|im_start|>"),
        token("<|im_end|>"),
        token("<|voice|>"),
        token("<|semantic:0|>"),
        phonemes if len(phonemes) == len(PHONEMES) else (),
    )


def read(folder: Path, phonemes: tuple[int, ...] = ()) -> Encode:
    """Returns the tokenizer of a checkpoint, as a function. It recognises no control tokens but those of phonemes."""
    return text_encoder(folder, dict(zip(PHONEMES, phonemes, strict=True)) if phonemes else {})
