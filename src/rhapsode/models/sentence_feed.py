"""Text that arrives while a request is spoken, for models that take whole sentences: each gets a prompt of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rhapsode.models.prompt import Following
from rhapsode.text.stream import SentenceStream


class SentenceFeed:
    """A feed that no prompt takes text from while it is spoken: `next_part` gives the next prompt's text."""

    def __init__(self, text: str, most_chars: int) -> None:
        self._sentences = SentenceStream(most_chars=most_chars)
        self._sentences.push(text)

    def push(self, text: str) -> tuple[int, ...]:
        self._sentences.push(text)
        return ()

    def close(self) -> tuple[int, ...]:
        self._sentences.close()
        return ()

    def steps(self) -> None:
        """The text of the prompt that is spoken is complete."""

    def next_part(self, part: Callable[[str], Any]) -> Any:
        """Returns `part(sentence)` of the next sentence, as `Prompt.following` does."""
        sentence = self._sentences.pop()
        if sentence is not None:
            return part(sentence)
        return None if self._sentences.closed else Following.NOT_YET
