"""The headings and paragraphs of a document, from which a book's chapters are made."""

from __future__ import annotations

from rhapsode.errors import InvalidRequest
from rhapsode.text.html import HtmlReader
from rhapsode.text.markdown.reader import MarkdownReader

Block = tuple[str | None, str]
"""A heading and an empty text, or `None` and a paragraph."""

CHAPTER_LEVEL = 3
"""Headings up to this level begin chapters; those below it are paragraphs."""


class BlockBudget:
    """How many tags and paragraphs the pages of one book may have."""

    def __init__(self, tags: int, blocks: int) -> None:
        self._tags, self._blocks = tags, blocks

    def take(self, tags: int = 0, blocks: int = 0) -> None:
        self._tags -= tags
        self._blocks -= blocks
        if self._tags < 0 or self._blocks < 0:
            raise InvalidRequest("the book has more tags or paragraphs than any book needs.")


class BlockList:
    """Collects the blocks of a document's content."""

    def __init__(self, budget: BlockBudget | None = None) -> None:
        self.blocks: list[Block] = []
        self._budget = budget
        self._texts: list[str] = []
        self._cells: list[str] = []

    def text(self, text: str, start: int, stop: int | None = None) -> None:
        self._texts.append(text)

    def begin_heading(self) -> None:
        self.end_block()

    def end_block(self, level: int = 0) -> None:
        self.end_cell()
        if block := ", ".join(self._cells):
            if self._budget is not None:
                self._budget.take(blocks=1)
            self.blocks.append((block, "") if 1 <= level <= CHAPTER_LEVEL else (None, block))
        self._cells = []

    def end_cell(self) -> None:
        if text := " ".join("".join(self._texts).split()):
            self._cells.append(text)
        self._texts = []

    def gap(self) -> None:
        self.end_block()


def blocks_of_html(page: str, budget: BlockBudget | None = None) -> list[Block]:
    """Returns the headings and paragraphs of a page, in order; raises `InvalidRequest` if there are too many."""
    found = BlockList(budget)
    reader = HtmlReader(found, None if budget is None else lambda: budget.take(tags=1))
    reader.push(page)
    reader.close()
    return found.blocks


def blocks_of_markdown(text: str) -> list[Block]:
    """Returns the headings and paragraphs of a text, in order."""
    found = BlockList()
    reader = MarkdownReader(found)
    reader.push(text)
    reader.close()
    return found.blocks
