"""Text as it is spoken, with a map back to the characters that were written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

_WORD = re.compile(r"\S+")


class SpokenRun(NamedTuple):
    """A run of spoken characters, and the written characters `[start, stop)` that they stand for."""

    text: str
    start: int
    stop: int
    copied: bool = False
    """Whether the characters are the written ones, one for one."""
    fixed: bool = False
    """Whether later steps must not change the characters: a respelling of the lexicon, for example."""

    def part(self, first: int, last: int) -> SpokenRun:
        """Returns characters `[first, last)`. If the run is not copied, they stand for all its written characters."""
        if not self.copied:
            return self._replace(text=self.text[first:last])
        return self._replace(text=self.text[first:last], start=self.start + first, stop=self.start + last)


class SpokenWord(NamedTuple):
    """A word as it is spoken, where it is in the spoken text, and the written characters it stands for."""

    text: str
    at: int
    start: int
    stop: int


@dataclass(frozen=True)
class SpokenText:
    """A spoken text and its map to the written characters."""

    runs: tuple[SpokenRun, ...] = ()

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)

    def written(self, first: int, last: int) -> tuple[int, int]:
        """Returns the written characters that spoken characters `[first, last)` stand for."""
        buffer = RunBuffer()
        for run in self.runs:
            buffer.append(run)
        return buffer.span(first, last)

    def words(self) -> Iterator[SpokenWord]:
        """Yields the words of the text, in order. Several may stand for the same written characters."""
        buffer = RunBuffer()
        for run in self.runs:
            buffer.append(run)
        for found in _WORD.finditer(self.text):
            yield SpokenWord(found[0], found.start(), *buffer.span(*found.span()))


class RunBuffer:
    """Consecutive runs: their joined text, and the runs of any part of it."""

    def __init__(self) -> None:
        self.text = ""
        self._runs: list[SpokenRun] = []
        self._ends: list[int] = []

    def append(self, run: SpokenRun) -> None:
        if not run.text:
            return
        self.text += run.text
        last = self._runs[-1] if self._runs else None
        if last and last.copied and run.copied and last.stop == run.start and last.fixed == run.fixed:
            self._runs[-1] = last._replace(text=last.text + run.text, stop=run.stop)
            self._ends[-1] = len(self.text)
        else:
            self._runs.append(run)
            self._ends.append(len(self.text))

    def runs(self, first: int, last: int) -> Iterator[SpokenRun]:
        """Yields the runs of characters `[first, last)`."""
        index = bisect_right(self._ends, first)
        while first < last:
            begin = self._ends[index - 1] if index else 0
            stop = min(last, self._ends[index])
            yield self._runs[index].part(first - begin, stop - begin)
            first = stop
            index += 1

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Returns the written characters of spoken characters `[first, last)`, which must not be empty."""
        runs = list(self.runs(first, last))
        return min(run.start for run in runs), max(run.stop for run in runs)

    def drop(self, count: int) -> None:
        """Removes the first `count` characters."""
        if count:
            kept = list(self.runs(count, len(self.text)))
            self.text, self._runs, self._ends = "", [], []
            for run in kept:
                self.append(run)


def joined(runs: Iterable[SpokenRun]) -> list[SpokenRun]:
    """Joins neighbouring runs that copy neighbouring characters."""
    found: list[SpokenRun] = []
    texts: list[str] = []
    for run in runs:
        last = found[-1] if found else None
        if last and last.copied and run.copied and last.stop == run.start and last.fixed == run.fixed:
            found[-1] = last._replace(stop=run.stop)
            texts.append(run.text)
            continue
        if last:
            found[-1] = last._replace(text="".join(texts))
        found.append(run)
        texts = [run.text]
    if found:
        found[-1] = found[-1]._replace(text="".join(texts))
    return [run for run in found if run.text]
