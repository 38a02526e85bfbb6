"""Marks inside the lines of Markdown: emphasis, code, links, images, tags, references to characters."""

from __future__ import annotations

import re
from html import unescape

from rhapsode.text.content import ContentHandler
from rhapsode.text.markdown.written import WrittenText

MOST_LABEL, MOST_CODE = 400, 400
"""The most characters in which the end of a link's text or of a code span is looked for."""
MOST_NESTED = 3
MOST_RUN = 32

_PLAIN = re.compile(r"[^\\`*_~\[\]!<&|#\n]+")
_OPEN = re.compile(
    r"\\|!|([*_~`])\1{0,30}|#{1,31}[ \t]{0,31}|&[#a-zA-Z0-9]{0,31}"
    r"|<(?:[!/a-zA-Z?](?:[^<>\n]|\n(?!\n)){0,998})?"
)
"""The beginning of a mark that more text may complete or change."""
_RUN = re.compile(r"([*_~`])\1{0,31}")
_HASHES = re.compile(r"#{1,32}")
_CLOSING_HASHES = re.compile(r"#{1,32}[ \t]{0,32}(?=\n|\Z)")
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,30});")
_AUTOLINK = re.compile(r"<([a-zA-Z][a-zA-Z0-9+.-]{1,31}:[^\s<>]{1,900}|[^\s<>@]{1,200}@[^\s<>]{1,200})>")
_TAG = re.compile(r"</?[a-zA-Z!?](?:[^<>\n]|\n(?!\n)){0,998}>")
_LABEL_MARK = re.compile(r"\\.|[\[\]]|\n[ \t]*\n", re.DOTALL)
_DELIMITER_CELL = re.compile(r"[ \t]{0,32}:?-{1,99}:?[ \t]{0,32}(?=[|\n]|\Z)")
_OPEN_CELL = re.compile(r"\|[ \t]{0,32}:?-{0,99}:?[ \t]{0,32}")
_DESTINATION_MARK = re.compile(r"\\.|[()\n]")
_REFERENCE_END = re.compile(r"[\]\n]")


class InlineReader:
    """Reads the text inside a line. A mark is decided within a bounded number of characters."""

    def __init__(self, written: WrittenText, content: ContentHandler) -> None:
        self._written, self._content = written, content
        self._label_ends: list[int] = []
        self._skipped = ""
        """What is left out now: a `comment`, the `destination` of a link or the `reference` after its text."""
        self._depth = 0
        self.begin()
        self.begin_block()

    def begin(self, is_heading: bool = False, is_row: bool = False) -> None:
        """Begins a line."""
        self.is_heading, self.is_row = is_heading, is_row
        self._before, self._skipped = " ", ""

    def begin_block(self) -> None:
        """Begins a paragraph, an item or a heading: no emphasis and no link is open."""
        self._is_emphasis = False
        self._label_ends.clear()

    @property
    def is_in_comment(self) -> bool:
        return self._skipped == "comment"

    def read(self) -> bool:
        """Reads some text or one mark, but no end of a line; returns whether there was enough text to decide."""
        written = self._written
        if self._skipped:
            return self._skip()
        if found := written.match(_PLAIN):
            self._say(found[0], len(found[0]))
            return True
        char = written.char
        if char == "[":
            return self._bracket(written.at)
        if char == "`" and written.is_open(_RUN) and len(written.text) - written.at < MOST_RUN:
            return False
        if char != "`" and written.is_open(_OPEN) and (char != "#" or self.is_heading):
            return False
        match char:
            case "`":
                return self._code()
            case "*" | "_" | "~":
                self._emphasis()
            case "!" if written.text.startswith("![", written.at):
                return self._bracket(written.at + 1)
            case "]":
                self._label_end()
            case "\\":
                self._escape()
            case "&":
                self._character()
            case "<":
                self._angle()
            case "#":
                self._hashes()
            case "|" if self.is_row:
                return self._cell()
            case _:
                self._say(char, 1)
        return True

    def _say(self, text: str, length: int, skip: int = 0) -> None:
        """Says written text, `skip` characters further on; `length` characters are read."""
        self._content.text(text, self._written.place + skip)
        self._pass(length)

    def _pass(self, length: int) -> None:
        written = self._written
        written.at += length
        self._before = written.text[written.at - 1]

    # --- marks ---

    def _emphasis(self) -> None:
        """Leaves out a run of marks; those that stand alone (`2 * 3`) or inside a word (`snake_case`) are text."""
        written = self._written
        found = written.match(_RUN)
        assert found is not None
        run, before = found[0], self._before
        after = written.text[found.end() : found.end() + 1] or " "
        is_inside = before.isalnum() and after.isalnum()
        is_between_digits = before.isdigit() and after.isdigit()
        is_text = before.isspace() and after.isspace()
        if is_inside:
            is_text = run[0] == "_" or is_between_digits or (len(run) == 1 and not self._is_emphasis)
        if run[0] == "~" and len(run) == 1:
            is_text = True
        if is_text and len(run) < MOST_RUN:
            self._say(run, len(run))
            return
        self._is_emphasis = not after.isspace() and not before.isalnum()
        self._pass(len(run))

    def _code(self) -> bool:
        """Says a code span as it is written; a run of backticks that nothing closes is left out."""
        written = self._written
        found = written.match(_RUN)
        assert found is not None
        count, start = len(found[0]), found.end()
        if count < MOST_RUN:
            most = start + MOST_CODE
            blank = written.text.find("\n\n", start, most)
            limit = blank if blank >= 0 else most
            for run in re.finditer("`+", written.text[start:limit]):
                if start + run.end() == most or not written.has(start + run.end()):
                    break
                if len(run[0]) == count:
                    self._content.text(written.text[start : start + run.start()], written.place + count)
                    self._pass(count + run.end())
                    return True
            if not written.has(limit):
                return False
        self._pass(count)
        return True

    def _escape(self) -> None:
        following = self._written.text[self._written.at + 1 : self._written.at + 2]
        if following and not following.isalnum() and not following.isspace():
            self._say(following, 2, skip=1)
        elif following == "\n":
            self._pass(1)
        else:
            self._say("\\", 1)

    def _character(self) -> None:
        found = self._written.match(_REFERENCE)
        text = unescape(found[0]) if found else "&"
        if found is None or text == found[0]:
            self._say("&", 1)
            return
        self._content.text(text, self._written.place, self._written.place + len(found[0]))
        self._pass(len(found[0]))

    def _angle(self) -> None:
        written = self._written
        if written.text.startswith("<!--", written.at):
            self._skipped = "comment"
            self._pass(4)
        elif link := written.match(_AUTOLINK):
            self._say(link[1], len(link[0]), skip=1)
        elif tag := written.match(_TAG):
            if tag[0][:3].lower() == "<br":
                self._content.text(" ", written.place, written.place + len(tag[0]))
            self._pass(len(tag[0]))
        else:
            self._say("<", 1)

    def _hashes(self) -> None:
        if self.is_heading and self._before.isspace() and (found := self._written.match(_CLOSING_HASHES)):
            self._pass(len(found[0]))
            return
        found = self._written.match(_HASHES)
        assert found is not None
        self._say(found[0], len(found[0]))

    def _cell(self) -> bool:
        written = self._written
        if written.is_open(_OPEN_CELL):
            return False
        self._content.end_cell()
        self._pass(1)
        if found := written.match(_DELIMITER_CELL):
            self._pass(len(found[0]))
        return True

    # --- links ---

    def _bracket(self, start: int) -> bool:
        """Begins a link or an image where `[` has its `]` and what follows it; else it is text."""
        written = self._written
        end = self._label_stop(start)
        if end is None or (end >= 0 and not written.has(end + 1)):
            return False
        following = written.text[end + 1 : end + 2] if end >= 0 else ""
        if end > 0 and written.text.startswith("[^", start):
            self._pass(end + 1 - written.at)
        elif following and following in "([":
            self._label_ends.append(written.place + end - written.at)
            self._pass(start + 1 - written.at)
        else:
            self._say(written.text[written.at : start + 1], start + 1 - written.at)
        return True

    def _label_stop(self, start: int) -> int | None:
        """Returns where the label that begins here has its `]`; -1: it has none; `None`: that is not known yet."""
        written, depth = self._written, 0
        for mark in _LABEL_MARK.finditer(written.text, start + 1, start + MOST_LABEL):
            if mark[0] == "[":
                depth += 1
            elif mark[0] == "]":
                depth -= 1
            if depth < 0:
                return mark.start()
            if depth >= MOST_NESTED or mark[0][0] == "\n":
                return -1
        return -1 if written.has(start + MOST_LABEL) else None

    def _label_end(self) -> None:
        written = self._written
        while self._label_ends and self._label_ends[-1] < written.place:
            self._label_ends.pop()
        if not self._label_ends or self._label_ends[-1] != written.place:
            self._say("]", 1)
            return
        self._label_ends.pop()
        self._skipped = "destination" if written.text.startswith("(", written.at + 1) else "reference"
        self._pass(2)
        self._depth = 1

    # --- what is left out ---

    def _skip(self) -> bool:
        match self._skipped:
            case "comment":
                return self._skip_comment()
            case "destination":
                return self._skip_destination()
        written = self._written
        found = _REFERENCE_END.search(written.text, written.at)
        self._end_skip(found, (found.end() if found[0] == "]" else found.start()) if found else len(written.text))
        return True

    def _skip_comment(self) -> bool:
        written = self._written
        stop = written.text.find("-->", written.at)
        if stop >= 0:
            self._skipped = ""
            self._pass(stop + 3 - written.at)
            return True
        kept = 0 if written.is_complete else 2
        if len(written.text) - written.at <= kept:
            return False
        self._pass(len(written.text) - kept - written.at)
        return True

    def _skip_destination(self) -> bool:
        """Leaves out the address and the title of a link, up to its `)` or the end of the line."""
        written = self._written
        found = _DESTINATION_MARK.search(written.text, written.at)
        if found is None:
            if not written.is_complete and written.text.endswith("\\"):  # it may escape what follows
                if len(written.text) - written.at == 1:
                    return False
                self._pass(len(written.text) - 1 - written.at)
            else:
                self._pass(len(written.text) - written.at)
            return True
        self._depth += {"(": 1, ")": -1}.get(found[0], 0)
        is_end = found[0] == "\n" or self._depth == 0
        self._end_skip(found if is_end else None, found.start() if found[0] == "\n" else found.end())
        return True

    def _end_skip(self, found: re.Match[str] | None, stop: int) -> None:
        if found is not None:
            self._skipped = ""
        if stop > self._written.at:
            self._pass(stop - self._written.at)
