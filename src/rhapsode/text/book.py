"""Reads books from plain text, Markdown or EPUB."""

from __future__ import annotations

import re
from pathlib import Path

from rhapsode.errors import InvalidRequest
from rhapsode.text.chapters import BookText, Chapter, gather

HEADING = (
    r"(?i:(?:chapter|part|book|prologue|epilogue|preface|foreword|introduction|appendix|kapitel|teil|vorwort|chapitre"
    r"|partie|cap[ií]tulo|capitolo|parte|hoofdstuk|kapitola|rozdział)\b.{0,80})|[IVXLC]{1,7}\.?|\d{1,3}\.?"
)
"""Lines of plain text that begin a chapter, where they stand alone between empty lines."""

_MARKDOWN_HEADING = re.compile(r"#{1,3}\s+(?P<title>\S.*)")
_MARKDOWN = (
    (re.compile(r"!\[[^\[\]]{0,300}\]\([^()]{0,500}\)"), ""),
    (re.compile(r"\[([^\[\]]{0,300})\]\([^()]{0,500}\)"), r"\1"),
    (re.compile(r"(?m)^[ \t]{0,20}(?:>|[-*+]|#{4,6})[ \t]+"), ""),
    (re.compile(r"(\*\*|__|\*|_|`)(?=\S)(.{1,100}?)(?<=\S)\1"), r"\2"),
)


def read_book(file: Path, pattern: str | None = None) -> BookText:
    """Reads a book by its file's extension. `pattern` is a regular expression for lines that begin a chapter."""
    if file.suffix.lower() == ".epub":
        from rhapsode.text.epub import read_epub

        return read_epub(file)
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidRequest(f"cannot read {file}: {reason}.") from None
    is_markdown = file.suffix.lower() in (".md", ".markdown")
    return BookText(file.stem, split_chapters(text, pattern, is_markdown))


def split_chapters(text: str, pattern: str | None = None, is_markdown: bool = False) -> tuple[Chapter, ...]:
    """Returns the chapters of a text; all of it is one chapter where it has no headings."""
    try:
        heading = re.compile(pattern or HEADING)
    except re.error as error:
        raise InvalidRequest(f"--chapter-pattern is not a regular expression: {error}.") from None
    by_markdown = is_markdown and pattern is None
    blocks: list[tuple[str | None, str]] = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in block.strip().splitlines()]
        if by_markdown:
            blocks += _markdown_blocks(lines)
        elif lines and pattern is not None and heading.fullmatch(lines[0]):
            blocks += [(lines[0], ""), (None, " ".join(lines[1:]))]
        elif lines and pattern is None and len(lines) <= 2 and heading.fullmatch(lines[0]):
            blocks.append((" ".join(lines), ""))  # many titles have a second line
        else:
            blocks.append((None, " ".join(lines)))
    return gather(blocks)


def _markdown_blocks(lines: list[str]) -> list[tuple[str | None, str]]:
    blocks: list[tuple[str | None, str]] = []
    held: list[str] = []
    for line in lines:
        if found := _MARKDOWN_HEADING.fullmatch(line):
            title = found["title"].rstrip("#").rstrip() or found["title"]
            blocks += [(None, _plain(held)), (_plain([title]), "")]
            held = []
        elif not line.startswith("```"):
            held.append(line)
    return [*blocks, (None, _plain(held))]


def _plain(lines: list[str]) -> str:
    text = "\n".join(lines)
    for mark, instead in _MARKDOWN:
        text = mark.sub(instead, text)
    return text.replace("\n", " ").strip()
