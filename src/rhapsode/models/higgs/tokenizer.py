"""The control tokens of prompts, by name, and the tokenizer for the text of users."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rhapsode.checkpoints.tokenizer import Encode, added_tokens, text_encoder
from rhapsode.errors import CheckpointError

_TAG = re.compile(r"<\|\w+:\w+\|>")
"""The tokens of v3 that a text may hold, such as `<|env:music|>`: no other control token has a colon. All others are
read as the characters they consist of, and so is a tag that the tokenizer lacks."""


class ControlTokens:
    """The added tokens of a checkpoint."""

    def __init__(self, folder: Path, vocabulary: int) -> None:
        self._folder, self._vocabulary = folder, vocabulary
        self._ids = added_tokens(folder)

    def __contains__(self, name: str) -> bool:
        return name in self._ids

    def __getitem__(self, name: str) -> int:
        if name not in self._ids:
            raise CheckpointError(f"the tokenizer in {self._folder} lacks the token '{name}'.")
        found = self._ids[name]
        if not 0 <= found < self._vocabulary:
            raise CheckpointError(f"'{name}' is token {found}; the model in {self._folder} has {self._vocabulary}.")
        return found

    def tags(self) -> Mapping[str, int]:
        """Returns the tokens that control how a text is spoken."""
        return {name: self[name] for name in self._ids if _TAG.fullmatch(name)}


def read(folder: Path, tags: Mapping[str, int] | None = None) -> Encode:
    """Returns the tokenizer of a checkpoint, as a function. Of the control tokens, it recognises only `tags`."""
    return text_encoder(folder, tags or {})
