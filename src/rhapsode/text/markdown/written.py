"""The written text that has arrived and is not read yet."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass
class WrittenText:
    """A text that arrives in pieces, and the place up to which it is read."""

    text: str = ""
    at: int = 0
    is_complete: bool = False
    _dropped: int = 0

    def add(self, text: str) -> None:
        self.text, self._dropped, self.at = self.text[self.at :] + text, self._dropped + self.at, 0

    @property
    def is_read(self) -> bool:
        return self.at >= len(self.text)

    @property
    def char(self) -> str:
        return self.text[self.at]

    @property
    def place(self) -> int:
        """The index of the next character in the whole text."""
        return self._dropped + self.at

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self.text, self.at)

    def is_open(self, pattern: re.Pattern[str]) -> bool:
        """Returns whether all that is left matches `pattern`, so that more text can change what it means."""
        return not self.is_complete and pattern.fullmatch(self.text, self.at) is not None

    def has(self, index: int) -> bool:
        """Returns whether the character at `index` of `text` is there, or will never be."""
        return self.is_complete or index < len(self.text)
