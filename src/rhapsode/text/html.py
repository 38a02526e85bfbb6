"""Reads HTML and XHTML, whole or as it arrives, in linear time: a tag is never looked for beyond the next one."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import NamedTuple

from rhapsode.text.content import ContentHandler

MOST_TAG = 4096
"""The most characters that are kept until a tag ends; of a longer one only the name counts."""

_BLOCKS = frozenset(
    "p div li ul ol dl dt dd blockquote section article aside header footer main".split()
    + "table tr caption br figure figcaption".split()
)
_GAPS = frozenset(("pre", "hr"))
_SILENT = frozenset(("script", "style", "head", "nav", "svg", "math", "pre", "template", "textarea", "select"))
_TAG = re.compile(r"""<(?P<end>/?)(?P<name>[A-Za-z][^\s<>/"']*+)(?:[^<>"']|"[^"<]*"|'[^'<]*')*+>|<[A-Za-z/!?][^<>]*>""")
"""A tag, where no attribute holds a `<`; else whatever looks like a tag, which is left out."""
_BEGUN = re.compile(r"<(?:[A-Za-z/!?][^<]*)?")
_NAME = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][^\s<>/\"']*+)")
_ALT = re.compile(r"""\salt\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_CODE_END = re.compile(r"</(?:script|style)", re.IGNORECASE)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}+|#[xX][0-9a-fA-F]{1,6}+|[a-zA-Z][a-zA-Z0-9]{1,30}+)(?![a-zA-Z0-9]);?")
_OPEN_REFERENCE = re.compile(r"&[#a-zA-Z0-9]{0,32}\Z")
_CDATA = "<![CDATA["


class _Tag(NamedTuple):
    name: str = ""
    """In lower case; empty: the tag means nothing here."""
    is_end: bool = False
    is_empty: bool = False
    """Whether it is start and end at once: `<br/>`."""
    alt: str = ""

    @property
    def level(self) -> int:
        """The level of a heading; 0 for other tags."""
        return int(self.name[1]) if re.fullmatch("h[1-6]", self.name) else 0


class HtmlReader:
    """Reads a page that arrives in pieces. How it is cut changes nothing."""

    def __init__(self, content: ContentHandler, count_tag: Callable[[], None] | None = None) -> None:
        """`count_tag` is called for every tag, and may raise."""
        self._content, self._count_tag = content, count_tag
        self._rest = ""
        self._place = 0
        self._silent = 0
        self._until = ""
        """What ends the part that is left out now: a comment, a script or a tag that is too long."""

    def push(self, text: str) -> None:
        """Takes a piece of the page."""
        self._rest += text
        self._read(is_complete=False)

    def close(self) -> None:
        """Ends the page."""
        self._read(is_complete=True)
        self._content.end_block()

    def _read(self, is_complete: bool) -> None:
        at = 0
        while at < len(self._rest):
            stop = self._step(at, is_complete)
            if stop == at:
                break
            at = stop
        self._rest, self._place = self._rest[at:], self._place + at

    def _step(self, at: int, is_complete: bool) -> int:
        """Reads some text or one tag; returns where it ends, or where it begins if more text can change it."""
        page = self._rest
        if self._until:
            return self._left_out(at, is_complete)
        if page[at] != "<":
            start = page.find("<", at)
            return self._say(at, start if start >= 0 else len(page), is_complete or start >= 0)
        if self._count_tag is not None:
            self._count_tag()
        is_begun = not is_complete and len(page) - at < MOST_TAG and _BEGUN.fullmatch(page, at) is not None
        for opening, until in (("<!--", "-->"), (_CDATA, "]]>")):
            if page.startswith(opening, at):
                self._until = until
                return at + len(opening)
            if is_begun and opening.startswith(page[at : at + len(opening)]):
                return at
        found = _TAG.match(page, at, at + MOST_TAG)
        if is_begun and (found is None or (found["name"] is None and _NAME.match(page, at))):
            return at  # a quotation mark is open: the tag may go on behind this `>`
        if found is None:
            return self._long_tag(at)
        self._tag(_tag_of(found), at, found.end())
        return found.end()

    def _long_tag(self, at: int) -> int:
        """Reads a `<` that no tag follows, or the beginning of a tag that is too long."""
        found = _NAME.match(self._rest, at)
        stop = at + MOST_TAG
        if found is None or len(self._rest) < stop or "<" in self._rest[at + 1 : stop]:
            return self._say(at, at + 1, is_complete=True)
        self._tag(_Tag(found["name"].lower(), found["end"] == "/"), at, stop)
        self._until = self._until or ">"
        return stop

    def _left_out(self, at: int, is_complete: bool) -> int:
        page, until = self._rest, self._until
        if until == "</":  # of a script
            found = _CODE_END.search(page, at)
            stop, length = (found.start() if found else -1), 0
        else:
            stop, length = page.find(until, at), len(until)
        if stop >= 0:
            self._until = ""
            return stop + length
        return len(page) if is_complete else max(at, len(page) - len("</script"))

    def _say(self, at: int, stop: int, is_complete: bool) -> int:
        """Says text without tags; a reference to a character may be complete only with the next piece."""
        page = self._rest
        if not is_complete and (found := _OPEN_REFERENCE.search(page, max(at, stop - 33), stop)):
            stop = found.start()
        while at < stop:
            found = _REFERENCE.search(page, at, stop)
            plain = page[at : found.start() if found else stop]
            if not self._silent:
                self._content.text(plain, self._place + at)
            at += len(plain)
            if found is not None:
                if not self._silent:
                    self._content.text(unescape(found[0]), self._place + at, self._place + found.end())
                at = found.end()
        return stop

    def _tag(self, tag: _Tag, start: int, stop: int) -> None:
        content = self._content
        if not self._silent:
            if tag.level and not tag.is_empty:
                if tag.is_end:
                    content.end_block(tag.level)
                else:
                    content.begin_heading()
            elif tag.name in _BLOCKS:
                content.end_block()
            elif tag.name in _GAPS:
                content.gap()
            elif tag.name in ("td", "th") and tag.is_end:
                content.end_cell()
            elif tag.alt:
                content.text(tag.alt, self._place + start, self._place + stop)
        if tag.name in _SILENT and not tag.is_empty:
            self._silent = max(0, self._silent - 1) if tag.is_end else self._silent + 1
        if tag.name in ("script", "style") and not (tag.is_end or tag.is_empty):
            self._until = "</"


def _tag_of(found: re.Match[str]) -> _Tag:
    name = (found["name"] or "").lower()
    alt = _ALT.search(found[0]) if name == "img" else None
    words = unescape(alt[1] or alt[2] or alt[3] or "") if alt else ""
    return _Tag(name, found["end"] == "/", found[0].endswith("/>"), " ".join(words.split()))
