"""A word or a bookmark of the input, and when it is heard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class WordTime:
    """A word as the input spells it, its characters in the input, and its time in the audio."""

    text: str
    start_s: float
    end_s: float
    """Equal to `start_s` if the voice left the word out; both then say where the word is missing."""
    start_char: int
    stop_char: int
    """The word is `input[start_char:stop_char]`."""

    @property
    def is_heard(self) -> bool:
        return self.end_s > self.start_s

    def timed(self, heard_s: Callable[[float], float]) -> WordTime:
        """Returns the word at other times, for audio that is played faster or slower."""
        return replace(self, start_s=heard_s(self.start_s), end_s=heard_s(self.end_s))

    @classmethod
    def read(cls, body: dict[str, Any]) -> WordTime:
        """Reads a word from its JSON form."""
        return cls(body["word"], body["start"], body["end"], body["from"], body["to"])

    def body(self) -> dict[str, Any]:
        """Returns the word in its JSON form."""
        return {
            "word": self.text,
            "start": round(self.start_s, 3),
            "end": round(self.end_s, 3),
            "from": self.start_char,
            "to": self.stop_char,
        }


@dataclass(frozen=True)
class BookmarkTime:
    """A `<mark>` of SSML: the time at which the speech reaches it."""

    name: str
    time_s: float
    at_char: int
    """Where it stands in the input."""

    def timed(self, heard_s: Callable[[float], float]) -> BookmarkTime:
        """Returns the bookmark at another time, for audio that is played faster or slower."""
        return replace(self, time_s=heard_s(self.time_s))

    def body(self) -> dict[str, Any]:
        """Returns the bookmark in its JSON form."""
        return {"name": self.name, "time": round(self.time_s, 3), "at": self.at_char}
