"""Headings and paragraphs of an XHTML page, found in linear time: a tag is never looked for beyond the next one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

from rhapsode.errors import InvalidRequest

Block = tuple[str | None, str]
"""A heading and an empty text, or `None` and a paragraph."""

_HEADINGS = frozenset(("h1", "h2", "h3"))
_PARAGRAPHS = frozenset("p div li blockquote section article td br h4 h5 h6 pre figcaption".split())
_SILENT = frozenset(("script", "style", "head", "nav", "svg", "math"))
_TAG = re.compile(r"""<(?P<end>/?)(?P<name>[A-Za-z][^\s<>/"']*+)(?:[^<>"']|"[^"<]*"|'[^'<]*')*+>|<[A-Za-z/!?][^<>]*>""")
"""A tag, where no attribute holds a `<`; else whatever looks like a tag, which is left out."""
_CODE_END = re.compile(r"</(?:script|style)", re.IGNORECASE)


class TagBudget:
    """How many tags and paragraphs the pages of one book may have."""

    def __init__(self, tags: int, blocks: int) -> None:
        self._tags, self._blocks = tags, blocks

    def take(self, tags: int = 0, blocks: int = 0) -> None:
        self._tags -= tags
        self._blocks -= blocks
        if self._tags < 0 or self._blocks < 0:
            raise InvalidRequest("the book has more tags or paragraphs than any book needs.")


class _Tag(NamedTuple):
    name: str = ""
    """In lower case; empty: the tag means nothing here."""
    is_end: bool = False
    is_empty: bool = False
    """Whether it is start and end at once: `<br/>`."""


def blocks_of(page: str, budget: TagBudget) -> Iterator[Block]:
    """Yields the headings and paragraphs of a page, in order; raises `InvalidRequest` if there are too many."""
    texts: list[str] = []
    silent = 0
    for text, tag in _pieces(page, budget):
        if text and not silent:
            texts.append(text)
        if tag is None or tag.name in _PARAGRAPHS or (tag.name in _HEADINGS and not tag.is_empty):
            if block := " ".join("".join(texts).split()):
                budget.take(blocks=1)
                yield (block, "") if tag and tag.is_end and tag.name in _HEADINGS else (None, block)
            texts = []
        if tag and tag.name in _SILENT and not tag.is_empty:
            silent = max(0, silent - 1) if tag.is_end else silent + 1


def _pieces(page: str, budget: TagBudget) -> Iterator[tuple[str, _Tag | None]]:
    """Yields each piece of text with the tag after it; `None`: the page ends."""
    at = seen = 0  # text before `at` is yielded, and from there to `seen` it has no tag
    while (start := page.find("<", seen)) >= 0:
        budget.take(tags=1)
        stop, tag = _tag_at(page, start)
        if stop > start:
            yield unescape(page[at:start]), tag
            at = stop
        seen = max(stop, start + 1)
    yield unescape(page[at:]), None


def _tag_at(page: str, start: int) -> tuple[int, _Tag]:
    """Returns the tag that begins here and where it ends; it ends here if it is a `<` of the text."""
    for opening, closing in (("<!--", "-->"), ("<![CDATA[", "]]>")):
        if page.startswith(opening, start):
            return _after(page, closing, start + len(opening)), _Tag()
    found = _TAG.match(page, start)
    if found is None:
        return start, _Tag()
    tag = _Tag((found["name"] or "").lower(), found["end"] == "/", found[0].endswith("/>"))
    if tag.name in ("script", "style") and not (tag.is_end or tag.is_empty):
        code_end = _CODE_END.search(page, found.end())
        return (code_end.start() if code_end else len(page)), tag
    return found.end(), tag


def _after(page: str, closing: str, start: int) -> int:
    stop = page.find(closing, start)
    return stop + len(closing) if stop >= 0 else len(page)
