"""The chapters of a book, cut into parts that are spoken one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rhapsode.errors import InvalidRequest
from rhapsode.text.clean import is_speakable

MOST_PART_CHARS = 1500
"""The most characters spoken in one request. When a book is interrupted, the part that is being spoken is lost."""

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s*(?<=\s|[。！？])")


@dataclass(frozen=True)
class Chapter:
    """A heading and the paragraphs below it. Text before the first heading is a chapter without a title."""

    title: str
    paragraphs: tuple[str, ...]

    def parts(self) -> list[str]:
        """Returns the texts of the chapter to speak one after the other: its title, then whole paragraphs."""
        parts = [self.title] if is_speakable(self.title) else []
        held = ""
        for piece in (piece for paragraph in self.paragraphs for piece in _pieces(paragraph)):
            if held and len(held) + len(piece) > MOST_PART_CHARS:
                parts.append(held)
                held = ""
            held = f"{held}\n\n{piece}" if held else piece
        return [part for part in [*parts, held] if is_speakable(part)]


@dataclass(frozen=True)
class BookText:
    title: str
    chapters: tuple[Chapter, ...]
    author: str = ""


def gather(blocks: Iterable[tuple[str | None, str]]) -> tuple[Chapter, ...]:
    """Groups blocks into chapters. A block is a title and an empty text, or `None` and a paragraph."""
    chapters: list[tuple[str, list[str]]] = [("", [])]
    for title, paragraph in blocks:
        if title is not None:
            chapters.append((title, []))
        elif is_speakable(paragraph):
            chapters[-1][1].append(paragraph)
    found = tuple(Chapter(title, tuple(paragraphs)) for title, paragraphs in chapters if title or paragraphs)
    if not any(chapter.parts() for chapter in found):
        raise InvalidRequest("the book has no letter and no digit: there is nothing to say.")
    return found


def _pieces(paragraph: str) -> list[str]:
    """Cuts a paragraph that is too long for one part between sentences."""
    if len(paragraph) <= MOST_PART_CHARS:
        return [paragraph]
    pieces = [""]
    for sentence in _SENTENCE_END.split(paragraph):
        if pieces[-1] and len(pieces[-1]) + len(sentence) > MOST_PART_CHARS:
            pieces.append("")
        pieces[-1] = f"{pieces[-1]} {sentence}".strip()
    return pieces
