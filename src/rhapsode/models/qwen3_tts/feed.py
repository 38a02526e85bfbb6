"""Tokenises text that arrives while it is spoken. Later text never changes the tokens that are returned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rhapsode.checkpoints.qwen2_tokenizer import Tokenize

ROLE = "assistant\n"
ROLE_TOKENS = 2

_WORD_START = re.compile(r" (?=\S)")
_SENTENCE_END = re.compile(r"(?<=[.!?…:;])[\"”’)\]]*$")


class Rest(NamedTuple):
    """The text after the end of a feed's part, which the feed did not tokenise."""

    text: str
    closed: bool


class WordFeed:
    """Tokenises text as it arrives. Returns the tokens of complete words: those before the last space.

    No token crosses such a space, so the tokens are those of the whole text. A text that would grow longer than
    `longest` characters ends before that, with a sentence if possible; the text after its end is the `rest`.
    """

    def __init__(self, encode: Tokenize, end: int, longest: int = 0) -> None:
        """`end` is the token that follows the last token of the text."""
        self._encode = encode
        self._end = end
        self._longest = longest
        self._chars = 0
        self._rest: Rest | None = None
        self._known = 0
        self._used = 0
        self._pending = ""
        self._begun = False
        self._closed = False

    def push(self, text: str) -> Sequence[int]:
        if self._rest is not None:
            self._rest = Rest(self._rest.text + text, False)
        if self._closed:
            return ()
        self._pending += text
        if not self._begun:
            self._pending = self._pending.lstrip()  # the prompt before it is already there: nothing may join with it
        cuts = [match.start() for match in _WORD_START.finditer(self._pending) if match.start() > 0]
        place = self._enough(cuts)
        if place is not None:
            return self._end_at(place, closed=False)
        return self._commit(cuts[-1]) if cuts else ()

    def close(self) -> Sequence[int]:
        """Returns the tokens of the last word and the end token; nothing if there never was any text."""
        if self._rest is not None:
            self._rest = Rest(self._rest.text, True)
        if self._closed:
            return ()
        if self._longest and self._chars and self._chars + len(self._pending) > self._longest:
            return self._end_at(0, closed=True)
        rest = self._commit(len(self._pending))
        self._closed = True
        return [*rest, self._end] if self._begun else ()

    def rest(self) -> Rest | None:
        """Returns the text that came after the end of this part; `None` if there is none and none will come."""
        rest = self._rest
        return None if rest is None or (rest.closed and not rest.text.strip()) else rest

    def _enough(self, cuts: list[int]) -> int | None:
        """Returns the place between words at which the text ends, or `None` if it may go on: after a sentence once half
        of `longest` is used, else before the text is too long."""
        if not self._longest:
            return None
        fitting = [cut for cut in cuts if self._chars + cut <= self._longest]
        sentences = [cut for cut in fitting if _SENTENCE_END.search(self._pending[:cut])]
        if len(fitting) < len(cuts):
            return (sentences or fitting or [0 if self._begun else cuts[0]])[-1]
        return next((cut for cut in sentences if self._chars + cut > self._longest / 2), None)

    def _end_at(self, place: int, closed: bool) -> list[int]:
        tokens = self._commit(place)
        self._rest, self._pending, self._closed = Rest(self._pending.lstrip(), closed), "", True
        return [*tokens, self._end]

    def steps(self) -> int | None:
        return None if self._closed else max(0, self._known - self._used)

    def use(self, tokens: int) -> None:
        """Sets how many of the tokens are in the prompt: no step takes them. Negative: steps take others first."""
        self._used = tokens

    def _commit(self, chars: int) -> list[int]:
        text, self._pending = self._pending[:chars], self._pending[chars:]
        if not text:
            return []
        # The first words follow the prompt's own line break, and are tokenised with it.
        tokens = self._encode(text) if self._begun else self._encode(ROLE + text)[ROLE_TOKENS:]
        self._begun = True
        self._chars += chars
        self._known += len(tokens)
        return tokens
