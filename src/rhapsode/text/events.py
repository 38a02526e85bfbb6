"""What a text holds besides words: pauses, changes of pace, bookmarks."""

from __future__ import annotations

from typing import NamedTuple

from rhapsode.text.spoken import SpokenRun


class Pause(NamedTuple):
    """Silence of this length."""

    seconds: float


class RateChange(NamedTuple):
    """The words that follow are spoken so many times as fast."""

    rate: float


class Bookmark(NamedTuple):
    """A named place in the text."""

    name: str
    at: int
    """The written character it stands before."""


TextEvent = SpokenRun | Pause | RateChange | Bookmark
