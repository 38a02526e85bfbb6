"""Collects the times at which a client hears the words and bookmarks of one utterance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rhapsode.alignment.words import BookmarkTime, WordTime
from rhapsode.audio.finish import Finish
from rhapsode.types import AudioChunk


class HeardTimes:
    """Collects the words and bookmarks that are known so far, and returns those that are new."""

    def __init__(self) -> None:
        self.words: list[WordTime] = []
        self.bookmarks: list[BookmarkTime] = []
        self._told = (0, 0)

    def __len__(self) -> int:
        return len(self.words) + len(self.bookmarks)

    def add(self, chunks: Sequence[AudioChunk], finish: Finish) -> None:
        """Adds the words and bookmarks of chunks that `finish` has written."""
        self.words += finish.words(chunks)
        self.bookmarks += finish.bookmarks(chunks)

    def news(self) -> dict[str, Any]:
        """Returns what was added since the last call, as fields of a message; empty if nothing was."""
        words, bookmarks = self.words[self._told[0] :], self.bookmarks[self._told[1] :]
        self._told = len(self.words), len(self.bookmarks)
        return _fields(words, bookmarks) if words or bookmarks else {}

    def body(self) -> dict[str, Any]:
        """Returns all words and bookmarks as fields of a message."""
        return _fields(self.words, self.bookmarks)


def _fields(words: Sequence[WordTime], bookmarks: Sequence[BookmarkTime]) -> dict[str, Any]:
    marks = {"marks": [mark.body() for mark in bookmarks]} if bookmarks else {}
    return {"words": [word.body() for word in words], **marks}
