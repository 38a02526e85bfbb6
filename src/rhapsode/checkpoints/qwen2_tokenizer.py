"""Encodes text with a checkpoint's Qwen2 tokenizer. Control tokens that users write are treated as plain text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE

from rhapsode.checkpoints.folder import read_json
from rhapsode.errors import CheckpointError

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)

Tokenize = Callable[[str], list[int]]


class Qwen2Tokenizer:
    """Returns the token ids of the text it is called with. Many texts at once take less time: see `look_ahead`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ahead: dict[str, list[int]] = {}

    def __call__(self, text: str) -> list[int]:
        known = self._ahead.get(text)
        if known is not None:
            return known.copy()
        ids: list[int] = self._tokenizer.encode(_whole(text), add_special_tokens=False).ids
        return ids

    def look_ahead(self, texts: Sequence[str]) -> None:
        """Tokenises texts that are asked for later, on all cores and without Python's lock. Their ids are kept until
        the next call of this method."""
        found = self._tokenizer.encode_batch([_whole(text) for text in texts], add_special_tokens=False)
        self._ahead = {text: encoding.ids for text, encoding in zip(texts, found, strict=True)}


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")  # JSON can bring a lone surrogate


def read(folder: Path) -> Qwen2Tokenizer:
    """Returns the tokenizer of a checkpoint.

    Added tokens are left out on purpose: prompts insert control tokens such as `<|im_start|>` by their ids, and a user
    who writes `<|im_end|>` means those ten characters.
    """
    return Qwen2Tokenizer(_from_json(folder) if (folder / "tokenizer.json").is_file() else _from_parts(folder))


def _from_json(folder: Path) -> Any:
    path = folder / "tokenizer.json"
    try:
        return Tokenizer.from_str(json.dumps({**read_json(path), "added_tokens": []}))
    except CheckpointError:
        raise
    except Exception as error:  # the package raises bare exceptions
        raise CheckpointError(f"{path} is not a tokenizer: {error}") from None


def _from_parts(folder: Path) -> Any:
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    for file in (vocab, merges):
        if not file.is_file():
            raise CheckpointError(f"{folder} holds neither tokenizer.json nor {file.name}: its tokenizer is missing.")
    try:
        return assemble(BPE.from_file(str(vocab), str(merges)))
    except Exception as error:  # the package raises bare exceptions
        raise CheckpointError(f"{vocab} and {merges.name} do not make a tokenizer: {error}") from None


def assemble(model: BPE) -> Any:
    """Makes a byte-level BPE tokenizer that normalises and splits text as Qwen2's does."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return tokenizer
