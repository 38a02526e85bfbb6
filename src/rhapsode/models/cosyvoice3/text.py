"""Cuts a text into segments of tokens. They are the same whether the text is complete or arrives in pieces."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

_SPACE = re.compile(r"\s+")
# Places that no token of the tokenizer crosses: before the space of a word, and before the mark that begins a clause
# of a script without spaces.
_WORD_START = re.compile(r"(?<=\S)(?= \S)|(?<=[^\W_])(?=[，。！？；：、][^\W_])")
_SENTENCE_END = re.compile(r"[.!?…][\"”’)\]]*$|[。！？；]$")
_STOP_BEFORE = re.compile(r"[。！？；]")


@dataclass
class TextSegment:
    """Tokens that one context of the language model speaks."""

    tokens: list[int] = field(default_factory=list)
    complete: bool = False
    """Whether the segment gets no more tokens."""


class CosyText:
    """Tokenises a text as it arrives, word by word, and cuts it into segments of at most `most` tokens.

    A segment ends with a sentence once it is half full, else before the word that would not fit. For an open request,
    this object is the feed of its prompts.
    """

    def __init__(self, encode: Callable[[str], list[int]], most: int) -> None:
        self._encode = encode
        self._most = most
        self._pending = ""
        self.closed = False
        self.segments: deque[TextSegment] = deque([TextSegment()])
        """Segments that are not removed yet; the last one may still grow."""

    def push(self, text: str) -> tuple[int, ...]:
        self._pending = _SPACE.sub(" ", self._pending + text)
        if not self.segments[-1].tokens:
            self._pending = self._pending.lstrip()
        cuts = [match.start() for match in _WORD_START.finditer(self._pending)]
        for start, stop in zip([0, *cuts], cuts, strict=False):
            self._add(self._pending[start:stop])
        self._pending = self._pending[cuts[-1] :] if cuts else self._pending
        return ()

    def close(self) -> tuple[int, ...]:
        if not self.closed:
            self.closed = True
            self._add(self._pending.rstrip())
            self._pending = ""
            self.segments[-1].complete = True
        return ()

    def steps(self) -> None:
        """Returns `None`: the text of the prompt that is being spoken is complete."""

    def has_more(self) -> bool:
        """Returns whether a segment with words follows the first one."""
        return any(segment.tokens for segment in list(self.segments)[1:])

    def _add(self, word: str) -> None:
        segment = self.segments[-1]
        if segment.tokens and _STOP_BEFORE.match(word) and self._is_half_full(segment):
            segment.tokens += self._encode(word[0])
            self._next_segment()
            segment, word = self.segments[-1], word[1:]
        tokens = self._encode(word if segment.tokens else word.lstrip())
        if segment.tokens and len(segment.tokens) + len(tokens) > self._most:
            self._next_segment()
            tokens = self._encode(word.lstrip())
        while len(tokens) > self._most:  # a word that is longer than a segment
            self.segments[-1].tokens = tokens[: self._most]
            tokens = tokens[self._most :]
            self._next_segment()
        self.segments[-1].tokens += tokens
        if _SENTENCE_END.search(word) and self._is_half_full(self.segments[-1]):
            self._next_segment()

    def _is_half_full(self, segment: TextSegment) -> bool:
        return len(segment.tokens) > self._most // 2

    def _next_segment(self) -> None:
        self.segments[-1].complete = True
        self.segments.append(TextSegment())
