"""Applies the rules of a language to text that arrives in pieces, cut anywhere."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from rhapsode.text.normalise.language import Language
from rhapsode.text.normalise.window import LONGEST_WORD, MOST_BEFORE, Spoken, Undecided, Word, WordWindow, bare
from rhapsode.text.spoken import RunBuffer, SpokenRun, joined

_TOKEN = re.compile(r"\s+|[\u3005-\u30ff\u3400-\u9fff]|[—―]|[^\s\u3005-\u30ff\u3400-\u9fff—―]+")
"""White space, one Chinese or Japanese character, a long dash, or a word."""


class Normaliser:
    """Push runs of text, get runs back. What a rule cannot decide yet is held back.

    A rule reads words through a `WordWindow` only, and reading past the end of what has arrived stops it. So the result
    does not depend on how the text is cut.
    """

    def __init__(self, language: Language) -> None:
        self._language = language
        self._buffer = RunBuffer()
        self._before: deque[Word] = deque(maxlen=MOST_BEFORE)
        self._spaced = True
        self._new_line = False
        self._too_long = False

    def push(self, run: SpokenRun) -> list[SpokenRun]:
        """Takes a run; returns what is certain now."""
        if run.fixed:
            certain = self.close()
            self._before.append(bare(run.text[-LONGEST_WORD:]))
            self._spaced = False
            return [*certain, run]
        self._buffer.append(run)
        return self._advance(closed=False)

    def close(self) -> list[SpokenRun]:
        """Returns the rest. No later text continues the last word."""
        rest = self._advance(closed=True)
        self._too_long = False
        return rest

    def _advance(self, closed: bool) -> list[SpokenRun]:
        buffer, tokens = self._buffer, _Tokens(self._buffer.text, closed)
        found: list[SpokenRun] = []
        at = kept = 0  # what is between them stays as it is written
        while (token := tokens.at(at)) is not None:
            if token.isspace():
                self._pass_space(token)
                at += len(token)
                continue
            self._too_long = self._too_long or len(token) > LONGEST_WORD
            if self._too_long:
                at += len(token)
            elif self._language.is_plain(token):
                self._before.append(bare(token))
                at += len(token)
            else:
                window = WordWindow(tokens.words(at, self._spaced, self._new_line), self._before, closed)
                try:
                    spoken = self._language.read(window) or Spoken("", 0)
                except Undecided:
                    break
                words = window.words[: max(1, spoken.words)]
                self._before.extend(words)
                if spoken.words:
                    first, stop = words[0].core_first - spoken.lead, words[-1].core_last + spoken.tail
                    found += [*buffer.runs(kept, first), SpokenRun(spoken.text, *buffer.span(first, stop))]
                    kept = stop
                at = words[-1].last
            self._spaced = self._new_line = False
        found += buffer.runs(kept, at)
        buffer.drop(at)
        return joined(found)

    def _pass_space(self, token: str) -> None:
        self._spaced, self._too_long = True, False
        if "\n" in token:
            self._new_line = True
            self._before.clear()


class _Tokens:
    """The tokens of a text that may go on. The last token is incomplete, unless it is a single character of its own."""

    def __init__(self, text: str, closed: bool) -> None:
        self._text = text
        self._closed = closed

    def at(self, position: int) -> str | None:
        """Returns the token that begins here; `None` if later text may continue it, or if there is none."""
        found = _TOKEN.match(self._text, position)
        if found is None:
            return None
        goes_on = found.end() == len(self._text) and not self._closed
        if not goes_on or len(found[0]) > LONGEST_WORD or found[0].isspace() or _stands_alone(found[0]):
            return found[0]
        return None

    def words(self, position: int, spaced: bool, new_line: bool) -> Iterator[Word]:
        """Yields the complete words from here on."""
        while (token := self.at(position)) is not None:
            if token.isspace():
                spaced, new_line = True, new_line or "\n" in token
            elif len(token) > LONGEST_WORD:  # it may be incomplete, so no rule may see it
                yield Word("", "", "", position, spaced, new_line=True)
                return
            else:
                yield bare(token, position, spaced, new_line)
                spaced = new_line = False
            position += len(token)


def _stands_alone(token: str) -> bool:
    return len(token) == 1 and (token in "—―" or "\u3005" <= token <= "\u30ff" or "\u3400" <= token <= "\u9fff")
