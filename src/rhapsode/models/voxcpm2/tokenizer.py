"""Encodes text with the checkpoint's Llama tokenizer; Chinese words are split into characters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from rhapsode.checkpoints.folder import read_json, section
from rhapsode.errors import CheckpointError

VoxEncode = Callable[[str], list[int]]

_SPACE = "\u2581"
_SPACES_AS_MARKS = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "first", "split": False}
"""Puts a space before a text that does not begin with one. Upstream's class (LlamaTokenizerFast of transformers 5) does
this whatever the file says."""


def read(folder: Path) -> VoxEncode:
    """Returns the tokenizer of a checkpoint, as a function. Control tokens that users write are plain text to it."""
    path = folder / "tokenizer.json"
    description = read_json(path)
    model = section(description, "model", str(path))
    try:
        changed: dict[str, Any] = {"added_tokens": [], "normalizer": None, "pre_tokenizer": _SPACES_AS_MARKS}
        tokenizer = Tokenizer.from_str(json.dumps(description | changed))
        characters = _characters(section(model, "vocab", str(path)), model.get("unk_token"))
    except CheckpointError:
        raise
    except Exception as error:  # the package raises bare exceptions
        raise CheckpointError(f"{path} is not a tokenizer: {error}") from None

    def encode(text: str) -> list[int]:
        whole = text.encode("utf-8", "replace").decode("utf-8")  # JSON can bring a lone surrogate
        ids: list[int] = tokenizer.encode(whole, add_special_tokens=False).ids
        return [part for token in ids for part in characters.get(token, (token,))]

    return encode


def _characters(vocab: Mapping[str, Any], unknown: str | None) -> dict[int, tuple[int, ...]]:
    """Returns, for each token of several Chinese characters, their own tokens: the model was trained on characters."""
    unknown_id = vocab.get(unknown or "", 0)
    words = {token for token in vocab if len(token) >= 2 and all("\u4e00" <= char <= "\u9fff" for char in token)}
    return {
        number: tuple(vocab.get(char, unknown_id) for char in bare)
        for token, number in vocab.items()
        if (bare := token.replace(_SPACE, "")) in words
    }
