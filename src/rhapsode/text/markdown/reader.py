"""The blocks of Markdown: headings, paragraphs, lists, quotes, tables, code."""

from __future__ import annotations

import re

from rhapsode.text.content import ContentHandler
from rhapsode.text.markdown.inline import InlineReader
from rhapsode.text.markdown.written import WrittenText

_SPACES = re.compile(r"[ \t]+")
_OPEN = re.compile(
    r"#{1,6}|[0-9]{1,9}[.)]?|[-+*]|`{1,2}|`{3,32}[^`\n]{0,200}|~{1,31}"
    r"|\[(?:[^\]\n]{0,200}(?:\](?::[ \t]{0,9}(?:[a-zA-Z][a-zA-Z0-9+.-]{0,20})?)?)?)?"
)
"""The beginning of a line that more text may make another kind of block."""
_OPEN_LINE = re.compile(r"([-*_])(?:[ \t]{0,8}+\1){0,400}+[ \t]{0,32}+|={1,400}[ \t]{0,32}|[-:][-:| \t]{0,400}+")
"""What may become a line of signs alone: a rule, or what stands under a heading or the head of a table."""
_HEADING = re.compile(r"#{1,6}(?=[ \t\n]|\Z)|#{2,6}(?=\w)")
"""A heading may come without a blank if it has two signs: with one, the word may be a hashtag."""
_FENCE = re.compile(r"`{3,32}(?=[^`\n]{0,200}(?:\n|\Z))|~{3,32}")
_OPEN_FENCE = re.compile(r"[`~]{0,32}[ \t]{0,32}")
_FENCE_END = re.compile(r"(`{3,32}|~{3,32})[ \t]{0,32}(?=\n|\Z)")
_UNDERLINE = re.compile(r"(?:={1,400}|-{1,400})[ \t]{0,32}(?=\n|\Z)")
_RULE = re.compile(r"([-*_])(?:[ \t]{0,8}+\1){2,400}+[ \t]{0,32}+(?=\n|\Z)")
_DELIMITER_ROW = re.compile(r"[-:][-: \t]{0,200}\|[-:| \t]{0,200}(?=\n|\Z)")
_ITEM = re.compile(r"(?:[-+*]|[0-9]{1,9}[.)])(?=[ \t\n]|\Z)")
_TASK = re.compile(r"\[[ xX]\](?=[ \t])")
_OPEN_TASK = re.compile(r"\[(?:[ xX]\]?)?")
_DEFINITION = re.compile(
    r"\[(?:\^[^\]\n]{1,200}\]:|[^\]\n]{1,200}\]:[ \t]{0,9}(?:[</#.]|[a-zA-Z][a-zA-Z0-9+.-]{0,20}:|www\.))"
)


class MarkdownReader:
    """Reads a document that arrives in pieces. How it is cut changes nothing, and the time grows with its length."""

    def __init__(self, content: ContentHandler) -> None:
        self._content = content
        self._written = WrittenText()
        self._inline = InlineReader(self._written, content)
        self._is_inside = False  # behind the marks at the start of a line
        self._is_skipped = False  # the rest of the line is left out
        self._fence = ""  # the run that opened the block of code
        self._level = 0  # of the heading
        self._is_paragraph = self._is_list = self._is_table = False
        self._is_quoted = self._was_quoted = False
        self._was_empty = True
        self._is_item = False
        self._indent = 0

    def push(self, text: str) -> None:
        """Takes a piece of the document."""
        self._written.add(text)
        self._read()

    def close(self) -> None:
        """Ends the document."""
        self._written.is_complete = True
        self._read()
        self._end_block()

    def _read(self) -> None:
        written = self._written
        while not written.is_read:
            if self._is_skipped:
                end = written.text.find("\n", written.at)
                written.at = end if end >= 0 else len(written.text)
                self._is_skipped = end < 0
                self._is_inside = True
            elif not self._is_inside:
                if not self._begin_line():
                    return
            elif written.char == "\n" and not self._inline.is_in_comment:
                self._end_line()
            elif not self._inline.read():
                return

    # --- lines ---

    def _end_line(self) -> None:
        if self._level or self._inline.is_row:
            self._end_block()
        elif self._is_paragraph:
            self._content.text(" ", self._written.place, self._written.place + 1)
        self._written.at += 1
        self._new_line(was_empty=False)

    def _new_line(self, was_empty: bool) -> None:
        self._is_inside = self._is_item = False
        self._was_quoted, self._is_quoted = self._is_quoted, False
        self._was_empty, self._indent = was_empty, 0

    def _end_block(self) -> None:
        self._content.end_block(self._level)
        self._inline.begin_block()
        self._inline.begin()
        self._level, self._is_paragraph = 0, False

    def _begin_line(self) -> bool:
        """Reads a mark at the start of a line; returns whether there was enough text to decide."""
        written = self._written
        if found := written.match(_SPACES):
            self._indent += len(found[0].expandtabs(4))
            written.at += len(found[0])
            return True
        if written.char == "\n":
            if not self._fence:
                self._end_block()
                self._is_table = False
            written.at += 1
            self._new_line(was_empty=True)
            return True
        if written.char == ">":
            self._quote()
            return True
        if self._fence:
            return self._read_code()
        if self._indent >= 4 and not (self._is_list or self._is_paragraph):
            self._content.gap()
            self._is_skipped = True
            return True
        if written.is_open(_OPEN) or written.is_open(_OPEN_TASK if self._is_item else _OPEN_LINE):
            return False
        self._begin_block()
        return True

    def _quote(self) -> None:
        if not (self._fence or self._was_quoted or self._is_quoted):
            self._end_block()
        self._is_quoted, self._indent = True, 0
        self._written.at += 1

    def _read_code(self) -> bool:
        if self._written.is_open(_OPEN_FENCE):
            return False
        found = self._written.match(_FENCE_END)
        if found and found[1].startswith(self._fence):
            self._fence = ""
        self._is_skipped = True
        return True

    def _begin_block(self) -> None:
        """Reads what says which kind of block the line belongs to."""
        written = self._written
        if self._is_item and (found := written.match(_TASK)):
            written.at += len(found[0])
        elif found := written.match(_HEADING):
            self._end_block()
            self._content.begin_heading()
            self._level = len(found[0])
            self._begin_text(len(found[0]))
        elif found := written.match(_FENCE):
            self._end_block()
            self._content.gap()
            self._fence, self._is_skipped = found[0], True
        elif self._is_paragraph and not self._is_item and (found := written.match(_UNDERLINE)):
            self._level = 1 if written.char == "=" else 2
            self._end_block()
            self._is_skipped = True
        elif not self._is_item and written.match(_RULE):
            self._end_block()
            self._content.gap()
            self._is_skipped = True
        elif self._is_paragraph and written.match(_DELIMITER_ROW):
            self._end_block()
            self._is_table = self._is_skipped = True
        elif (found := written.match(_ITEM)) and self._is_new_item(found[0]):
            self._begin_item(found[0])
        elif not self._is_paragraph and written.match(_DEFINITION):
            self._is_skipped = True
        else:
            self._begin_text(0)

    def _is_new_item(self, mark: str) -> bool:
        """A number in the middle of a paragraph begins no list, unless it is 1."""
        return not mark[0].isdigit() or not self._is_paragraph or self._is_list or mark[:-1] == "1"

    def _begin_item(self, mark: str) -> None:
        self._end_block()
        if mark[0].isdigit():
            self._content.text(mark, self._written.place)
            self._content.text(" ", self._written.place + len(mark), self._written.place + len(mark) + 1)
        self._written.at += len(mark)
        self._is_list = self._is_item = True
        self._indent = 0

    def _begin_text(self, length: int) -> None:
        is_row = self._is_table or (self._written.char == "|" and not self._level)
        if is_row:
            self._end_block()
        if self._was_empty and self._indent < 2 and not self._is_item:
            self._is_list = False
        self._inline.begin(is_heading=bool(self._level), is_row=is_row)
        self._written.at += length
        self._is_inside = True
        self._is_paragraph = not self._level and not is_row
