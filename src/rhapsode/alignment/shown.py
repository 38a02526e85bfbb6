"""The words of a text as subtitles show them: with the punctuation around them, and without markup."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rhapsode.alignment.words import WordTime
from rhapsode.text.markup import InputType, reader_of
from rhapsode.text.spoken import SpokenRun

_TAG = re.compile(r"<[^<>]*>")


class ShownWord(NamedTuple):
    """A word with the punctuation around it, and its times."""

    text: str
    start_s: float
    end_s: float
    ends_block: bool = False
    """Whether a heading, a paragraph or an item of a list ends with it."""


def shown_words(text: str, words: Sequence[WordTime], input_type: str = "text") -> list[ShownWord]:
    """Returns the words of a text with all that is written between them, but no markup."""
    shown = _shown(text, input_type)
    found: list[ShownWord] = []
    lead = shown(0, words[0].start_char).split() if words else []
    prefix = "".join(lead[-1:])
    for word, following in zip(words, [*words[1:], None], strict=True):
        stop = len(text) if following is None else following.start_char
        between = shown(word.stop_char, stop)
        own, blank, next_prefix = _cut_at_last_blank(between) if following is not None else (between, "", "")
        spelling = shown(word.start_char, word.stop_char)
        ends_block = input_type in ("markdown", "html") and "\n" in between
        found.append(ShownWord(" ".join(f"{prefix}{spelling}{own}".split()), word.start_s, word.end_s, ends_block))
        prefix = next_prefix if blank else ""
    return found


def _shown(text: str, input_type: str) -> Callable[[int, int], str]:
    """Returns a function that tells what is shown of the written characters `[start, stop)`."""
    match input_type:
        case "ssml":
            return lambda start, stop: _TAG.sub("", text[start:stop])
        case "markdown" | "html":
            return _document_shown(text, input_type)
        case _:
            return lambda start, stop: text[start:stop]


def _document_shown(text: str, input_type: InputType) -> Callable[[int, int], str]:
    reader = reader_of(input_type, "en")
    assert reader is not None
    events = [*reader.push(text), *reader.close()]
    runs = [event for event in events if isinstance(event, SpokenRun)]
    starts = [run.start for run in runs]

    def shown(start: int, stop: int) -> str:
        parts: list[str] = []
        first = max(0, bisect_right(starts, start) - 1)
        while first > 0 and runs[first - 1].stop >= start:  # signs that are not written have no length
            first -= 1
        for run in runs[first:]:
            if run.start >= stop:
                break
            if run.start == run.stop:
                parts += ["\n"] if run.start >= start and run.text[0] not in ",，" else [" "]
            elif run.copied:
                parts.append(text[max(start, run.start) : min(stop, run.stop)])
            elif run.start >= start:
                parts.append(run.text)
        return "".join(parts)

    return shown


def _cut_at_last_blank(text: str) -> tuple[str, str, str]:
    found = re.search(r"\s(?=\S*$)", text)
    return (text[: found.start()], " ", text[found.end() :]) if found else (text, "", "")
