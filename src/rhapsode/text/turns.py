"""Dialogues: turns that begin with a speaker's tag, in a text that is whole or arrives in pieces."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rhapsode.text.stream import SentenceStream


@dataclass(frozen=True)
class SpeakerTag:
    """How a model marks the speaker of a turn in its text."""

    pattern: re.Pattern[str]
    """Matches a tag. One of its groups is the speaker's number."""
    begun: re.Pattern[str]
    """Matches the beginning of a tag at the end of a text that may go on."""
    write: Callable[[int | str], str]
    """Returns the tag of a speaker in the form that the model knows."""

    def of(self, found: re.Match[str]) -> str:
        """Returns a tag that was found, in the form that the model knows."""
        return self.write(next(number for number in found.groups() if number is not None))


NO_SPEAKERS = SpeakerTag(re.compile("(?!)"), re.compile("(?!)"), str)
"""For a model that knows no speakers' tags: every sentence is a turn."""


class TurnStream:
    """A text that arrives in pieces, cut into sentences; each is a turn of the speaker whose tag came last.

    It is a `TextFeed`, but a prompt takes no text from it while the prompt is spoken: each prompt gets one turn, from
    `next_turn`.
    """

    def __init__(self, tag: SpeakerTag, most_chars: int) -> None:
        self._tag, self._most_chars = tag, most_chars
        self._rest = ""  # the beginning of a tag, perhaps
        self._speaker = ""
        self._sentences = self._new_sentences()
        self._turns: deque[str] = deque()
        self.closed = False

    def push(self, text: str) -> tuple[int, ...]:
        self._rest += text
        while found := self._tag.pattern.search(self._rest):
            self._sentences.push(self._rest[: found.start()])
            self._end_sentences()
            self._speaker = self._tag.of(found)
            self._rest = self._rest[found.end() :]
        begun = self._tag.begun.search(self._rest)
        sure = begun.start() if begun else len(self._rest)
        self._sentences.push(self._rest[:sure])
        self._rest = self._rest[sure:]
        self._turns.extend(self._spoken())
        return ()

    def close(self) -> tuple[int, ...]:
        if not self.closed:
            self._sentences.push(self._rest)
            self._rest, self.closed = "", True
            self._end_sentences()
        return ()

    def steps(self) -> None:
        """Does nothing: the text of the prompt that is being spoken is already complete."""

    def next_turn(self) -> str | None:
        """Returns the next turn; `None`: none is certain yet, or, once closed, none is left."""
        return self._turns.popleft() if self._turns else None

    def _end_sentences(self) -> None:
        self._sentences.close()
        self._turns.extend(self._spoken())
        self._sentences = self._new_sentences()

    def _new_sentences(self) -> SentenceStream:
        from rhapsode.text.stream import SentenceStream  # whole texts need no sentences

        return SentenceStream(most_chars=self._most_chars)

    def _spoken(self) -> Iterator[str]:
        while (sentence := self._sentences.pop()) is not None:
            yield f"{self._speaker}{sentence}"


def turns_of(text: str, tag: SpeakerTag, most_chars: int) -> list[str]:
    """Returns the turns that a `TurnStream` makes of a whole text."""
    stream = TurnStream(tag, most_chars)
    stream.push(text)
    stream.close()
    turns = []
    while (turn := stream.next_turn()) is not None:
        turns.append(turn)
    return turns
