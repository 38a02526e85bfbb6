"""Text to ids, as the checkpoint's Qwen3 tokenizer does it, and the ids of control tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from rhapsode.checkpoints.folder import read_json
from rhapsode.errors import CheckpointError
from rhapsode.models.fish_s2_pro.config import FishConfig

Encode = Callable[[str], list[int]]

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
    """Returns the control tokens of a checkpoint. The tokenizer's word counts before that of `config.json`."""
    known = {"<|im_end|>": config.tokens.eos_token_id, "<|semantic:0|>": config.tokens.semantic_start_token_id}
    known |= _added(folder)
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


def _added(folder: Path) -> dict[str, int]:
    """Returns the added tokens by name, from whichever file has them."""
    found: dict[str, int] = {}
    settings, whole = folder / "tokenizer_config.json", folder / "tokenizer.json"
    if settings.is_file():
        listed = read_json(settings).get("added_tokens_decoder")
        for number, entry in (listed if isinstance(listed, dict) else {}).items():
            found[str(entry.get("content"))] = int(number)
    if whole.is_file():
        found |= {str(entry["content"]): int(entry["id"]) for entry in read_json(whole).get("added_tokens") or ()}
    return found


def read(folder: Path, phonemes: tuple[int, ...] = ()) -> Encode:
    """Returns the tokenizer of a checkpoint, as a function. Of the control tokens it knows those of phonemes alone."""
    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_str(json.dumps({**read_json(path), "added_tokens": []}))
    except CheckpointError:
        raise
    except Exception as error:  # the package raises bare exceptions
        raise CheckpointError(f"{path} is not a tokenizer: {error}") from None
    marks = dict(zip(PHONEMES, phonemes, strict=True)) if phonemes else {}
    border = re.compile(f"({'|'.join(map(re.escape, marks))})") if marks else None

    def encode(text: str) -> list[int]:
        whole = text.encode("utf-8", "replace").decode("utf-8")  # JSON can bring a lone surrogate
        ids: list[int] = []
        for piece in border.split(whole) if border else (whole,):
            ids += [marks[piece]] if piece in marks else tokenizer.encode(piece, add_special_tokens=False).ids
        return ids

    return encode
