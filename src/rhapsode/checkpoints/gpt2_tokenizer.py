"""Encodes text with GPT-2's tokenizer, from its two files. Tokens that users write are plain text."""

from __future__ import annotations

from pathlib import Path

from rhapsode.checkpoints.folder import read_json
from rhapsode.checkpoints.tokenizer import Encode
from rhapsode.errors import CheckpointError

VOCABULARY, MERGES, ADDED = "vocab.json", "merges.txt", "added_tokens.json"


def read(folder: Path) -> Encode:
    """Returns a function from text to ids, without any of the added tokens."""
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import BPE

    for name in (VOCABULARY, MERGES):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} holds no {name}: its tokenizer is missing.")
    try:
        tokenizer = Tokenizer(BPE.from_file(str(folder / VOCABULARY), str(folder / MERGES)))
    except Exception as error:  # the package raises bare exceptions
        raise CheckpointError(f"{folder / VOCABULARY} and {MERGES} do not make a tokenizer: {error}") from None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def added(folder: Path) -> dict[str, int]:
    """Returns the ids of the tokens in `added_tokens.json`; none if there is no such file."""
    if not (folder / ADDED).is_file():
        return {}
    found = read_json(folder / ADDED)
    if not all(isinstance(number, int) for number in found.values()):
        raise CheckpointError(f"{folder / ADDED} must hold ids by the tokens' texts.")
    return found
