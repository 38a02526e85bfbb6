"""Prompts as data: a token and a frame's codes per position. The talker embeds them.

The talker prefills all positions but the last, which is the input of the first step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rhapsode.checkpoints.tokenizer import Encode
from rhapsode.models.base import Prompt
from rhapsode.models.fish_s2_pro.tokenizer import Tokens

Columns = NDArray[np.int64]  # [T, 1 + books]: a token, then the codes of a semantic token, else zeros
Codes = NDArray[np.int64]  # [F, books]


@dataclass
class FishPrompt(Prompt):
    """The talker's prompt. Without `last` it is context only, and nothing is spoken."""

    last: Columns = field(default_factory=lambda: np.zeros((0, 0), np.int64))  # [0 or 1, 1 + books]


class Segments:
    """Makes the pieces of a prompt. Each piece is tokenised by itself: no token crosses the border of two pieces."""

    def __init__(self, encode: Encode, tokens: Tokens, books: int) -> None:
        self._encode, self._tokens, self._books = encode, tokens, books

    def system(self, transcripts: str | None = None) -> list[int]:
        """Returns the system message up to the place of the references' codes; without references, all of it."""
        opening = [self._tokens.begin, *self._encode("system\n")]
        if transcripts is None:
            return [*opening, *self._encode("convert the provided text to speech"), *self.closing()]
        task = "convert the provided text to speech reference to the following:\n\nText:\n"
        return [*opening, *self._encode(task), *self._encode(transcripts), *self._encode("\n\nSpeech:\n")]

    def closing(self) -> list[int]:
        """Returns the end of a message."""
        return [self._tokens.end, *self._encode("\n")]

    def turn(self, text: str) -> list[int]:
        """Returns the user's message, and the beginning of the answer."""
        user = [self._tokens.begin, *self._encode("user\n"), *self._encode(text), *self.closing()]
        return [*user, self._tokens.begin, *self._encode("assistant\n"), self._tokens.voice]

    def columns(self, ids: list[int]) -> Columns:
        """Returns the prompt positions of these tokens."""
        columns = np.zeros((len(ids), 1 + self._books), np.int64)
        columns[:, 0] = ids
        return columns

    def frames(self, codes: Codes) -> Columns:
        """Returns the prompt positions of these frames."""
        return np.concatenate((self._tokens.semantic_start + codes[:, :1], codes), axis=1)
