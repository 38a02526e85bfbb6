"""Text that arrives while it is spoken, as tokens that are certain."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rhapsode.models.qwen3_tts.tokenizer import Encode

ROLE = "assistant\n"
ROLE_TOKENS = 2

_WORD_START = re.compile(r" (?=\S)")


class WordFeed:
    """Tokens of the words that can no longer change: those before the last space that a word follows.

    The tokenizer never joins anything across such a space, so that the tokens are those of the whole text.
    """

    def __init__(self, encode: Encode, end: int) -> None:
        """`end` is the token that follows the last one."""
        self._encode = encode
        self._end = end
        self._known = 0
        self._used = 0
        self._pending = ""
        self._begun = False
        self._closed = False

    def push(self, text: str) -> Sequence[int]:
        if self._closed:
            return ()
        self._pending += text
        if not self._begun:
            self._pending = self._pending.lstrip()  # the prompt before it is already there: nothing may join with it
        cuts = [match.start() for match in _WORD_START.finditer(self._pending)]
        return self._commit(cuts[-1]) if cuts and cuts[-1] > 0 else ()

    def close(self) -> Sequence[int]:
        """The last word and the end of the text; nothing at all, if there never was any."""
        if self._closed:
            return ()
        rest = self._commit(len(self._pending))
        self._closed = True
        return [*rest, self._end] if self._begun else ()

    def steps(self) -> int | None:
        return None if self._closed else max(0, self._known - self._used)

    def use(self, tokens: int) -> None:
        """So many of the tokens are in the prompt, and no step takes them; negative: steps take others before."""
        self._used = tokens

    def _commit(self, chars: int) -> list[int]:
        text, self._pending = self._pending[:chars], self._pending[chars:]
        if not text:
            return []
        # The first words follow the prompt's own line break, and are tokenised with it.
        tokens = self._encode(text) if self._begun else self._encode(ROLE + text)[ROLE_TOKENS:]
        self._begun = True
        self._known += len(tokens)
        return tokens
