"""Encodes users' text with a checkpoint's `tokenizer.json`; only the added tokens that are allowed are recognised."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from rhapsode.checkpoints.folder import read_json
from rhapsode.errors import CheckpointError

Encode = Callable[[str], list[int]]


def added_tokens(folder: Path) -> dict[str, int]:
    """Returns the ids of a checkpoint's added tokens by their texts.

    They are in `tokenizer_config.json` or in `tokenizer.json`; where both have a token, the latter counts.
    """
    found: dict[str, int] = {}
    settings, whole = folder / "tokenizer_config.json", folder / "tokenizer.json"
    try:
        if settings.is_file():
            listed = read_json(settings).get("added_tokens_decoder")
            for number, entry in (listed if isinstance(listed, dict) else {}).items():
                found[str(entry.get("content"))] = int(number)
        if whole.is_file():
            found |= {str(entry["content"]): int(entry["id"]) for entry in read_json(whole).get("added_tokens") or ()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{folder} has added tokens without a text or a number as id.") from None
    return found


def listed_tokens(path: Path) -> dict[str, int]:
    """Returns the ids of the added tokens that a `tokenizer.json` of any name lists."""
    try:
        return {str(entry["content"]): int(entry["id"]) for entry in read_json(path).get("added_tokens") or ()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} has added tokens without a text or a number as id.") from None


def text_encoder(folder: Path, allowed: Mapping[str, int], name: str = "tokenizer.json") -> Encode:
    """Returns a function from text to ids. Of the added tokens, it recognises only those in `allowed`.

    Others are read as the characters they consist of: a user who writes `<|im_end|>` means these ten characters.
    """
    from tokenizers import Tokenizer

    path = folder / name
    try:
        tokenizer = Tokenizer.from_str(json.dumps({**read_json(path), "added_tokens": [], "post_processor": None}))
    except CheckpointError:
        raise
    except Exception as error:  # the package raises bare exceptions
        raise CheckpointError(f"{path} is not a tokenizer: {error}") from None
    return allowing(allowed, lambda piece: tokenizer.encode(piece, add_special_tokens=False).ids)


def allowing(allowed: Mapping[str, int], plain: Encode) -> Encode:
    """Returns a function that encodes text by `plain`, but for the tokens in `allowed`, which are recognised."""
    longest_first = sorted(allowed, key=len, reverse=True)
    border = re.compile(f"({'|'.join(map(re.escape, longest_first))})") if allowed else None

    def encode(text: str) -> list[int]:
        whole = text.encode("utf-8", "replace").decode("utf-8")  # JSON can bring a lone surrogate
        ids: list[int] = []
        for piece in border.split(whole) if border else (whole,):
            ids += [allowed[piece]] if piece in allowed else plain(piece)
        return ids

    return encode
