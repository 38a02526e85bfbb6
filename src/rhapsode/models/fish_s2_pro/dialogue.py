"""Dialogues: turns that begin with a speaker's tag, in a text that is whole or arrives in pieces."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rhapsode.text.stream import SentenceStream

MOST_TURNS = 5
"""Turns that are generated together."""

_TAG = re.compile(r"<\|speaker:(\d+)\|>|<speaker:(\d+)>")
_TAG_BEGUN = re.compile(r"<(\|?(s(p(e(a(k(e(r(:\d*\|?)?)?)?)?)?)?)?)?)?$")


def canonical(text: str) -> str:
    """Returns the text with every speaker's tag as the model knows it; `<speaker:0>` is taken, too."""
    return _TAG.sub(lambda found: tag(found[1] or found[2]), text)


def tag(speaker: int | str) -> str:
    return f"<|speaker:{speaker}|>"


def untagged(text: str) -> str:
    """Returns the text without speakers' tags."""
    return _TAG.sub("", text)


def is_tagged(text: str) -> bool:
    return _TAG.search(text) is not None


def turns(text: str) -> list[str]:
    """Cuts a text before each speaker's tag. Without tags it is one turn, as it stands; like upstream, what is before
    the first tag is dropped."""
    text = canonical(text)
    if not is_tagged(text):
        return [text]
    starts = [found.start() for found in _TAG.finditer(text)]
    return [text[start:stop].strip() for start, stop in zip(starts, [*starts[1:], len(text)], strict=True)]


def batches(turns: Iterable[str], most_bytes: int) -> list[str]:
    """Joins turns that are generated together: at most five, and no more than `most_bytes` of UTF-8."""
    found: list[list[str]] = []
    size = 0
    for turn in turns:
        length = len(turn.encode("utf-8", "replace"))
        if not found or len(found[-1]) == MOST_TURNS or size + length > most_bytes:
            found.append([])
            size = 0
        found[-1].append(turn)
        size += length
    return ["\n".join(batch) for batch in found]


class DialogueStream:
    """A text that arrives in pieces, cut into sentences; each is a turn of the speaker whose tag came last.

    It is a feed that no prompt takes text from while it is spoken: `next_turn` gives the next prompt's text.
    """

    def __init__(self, most_chars: int) -> None:
        self._most_chars = most_chars
        self._rest = ""  # the beginning of a tag, perhaps
        self._speaker = ""
        self._sentences = self._new_sentences()
        self._turns: deque[str] = deque()
        self.closed = False

    def push(self, text: str) -> tuple[int, ...]:
        self._rest += text
        while found := _TAG.search(self._rest):
            self._sentences.push(self._rest[: found.start()])
            self._end_sentences()
            self._speaker = tag(found[1] or found[2])
            self._rest = self._rest[found.end() :]
        begun = _TAG_BEGUN.search(self._rest)
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
        """The text of the prompt that is spoken is complete."""

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
