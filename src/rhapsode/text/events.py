"""What a text holds besides words: pauses, changes of pace, bookmarks."""

from __future__ import annotations

from typing import NamedTuple

from rhapsode.text.spoken import SpokenRun


class Pause(NamedTuple):
    """Silence of this length."""

    seconds: float


class RateChange(NamedTuple):
    """Sets the speed of the words that follow: 2.0 is twice as fast."""

    rate: float


class Bookmark(NamedTuple):
    """A named place in the text."""

    name: str
    at: int
    """The index of the written character that follows the bookmark."""


TextEvent = SpokenRun | Pause | RateChange | Bookmark
