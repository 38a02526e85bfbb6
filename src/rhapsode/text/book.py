"""Reads books from plain text, Markdown, HTML or EPUB."""

from __future__ import annotations

import re
from pathlib import Path

from rhapsode.errors import InvalidRequest
from rhapsode.text.blocks import Block, blocks_of_html, blocks_of_markdown
from rhapsode.text.chapters import BookText, Chapter, gather
from rhapsode.text.clean import is_speakable

HEADING = (
    r"(?i:(?:chapter|part|book|prologue|epilogue|preface|foreword|introduction|appendix|kapitel|teil|vorwort|chapitre"
    r"|partie|cap[ií]tulo|capitolo|parte|hoofdstuk|kapitola|rozdział)\b.{0,80})|[IVXLC]{1,7}\.?|\d{1,3}\.?"
)
"""Lines of plain text that begin a chapter, where they stand alone between empty lines."""


def read_book(file: Path, pattern: str | None = None, input_type: str = "text") -> BookText:
    """Reads a book: EPUB by its name, else what `input_type` says. `pattern` matches lines that begin a chapter."""
    if file.suffix.lower() == ".epub":
        from rhapsode.text.epub import read_epub

        return read_epub(file)
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidRequest(f"cannot read {file}: {reason}.") from None
    return book_of(text, file.stem, pattern, input_type)


def book_of(text: str, name: str, pattern: str | None = None, input_type: str = "text") -> BookText:
    """Returns the book of a text. Its title is the first heading of a Markdown or HTML document, else `name`."""
    if pattern is not None or input_type not in ("markdown", "html"):
        return BookText(name, split_chapters(text, pattern))
    chapters = gather(blocks_of_html(text) if input_type == "html" else blocks_of_markdown(text))
    title = next((chapter.title for chapter in chapters if is_speakable(chapter.title)), name)
    return BookText(title, chapters)


def split_chapters(text: str, pattern: str | None = None) -> tuple[Chapter, ...]:
    """Returns the chapters of a plain text; all of it is one chapter where it has no headings."""
    try:
        heading = re.compile(pattern or HEADING)
    except re.error as error:
        raise InvalidRequest(f"--chapter-pattern is not a regular expression: {error}.") from None
    blocks: list[Block] = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in block.strip().splitlines()]
        if lines and pattern is not None and heading.fullmatch(lines[0]):
            blocks += [(lines[0], ""), (None, " ".join(lines[1:]))]
        elif lines and pattern is None and len(lines) <= 2 and heading.fullmatch(lines[0]):
            blocks.append((" ".join(lines), ""))  # many titles have a second line
        else:
            blocks.append((None, " ".join(lines)))
    return gather(blocks)
