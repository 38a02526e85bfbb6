"""The packaged lexicon: sorted lines in memory, found by bisection. A dictionary would take ten times as much."""

from __future__ import annotations

import lzma
import re
from array import array
from bisect import bisect_left
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

import numpy as np

FILE = "english.txt.xz"
REMEMBERED = 4096
"""Size of the cache of each section: it keeps the lines that were used last, since most words are frequent ones."""

_UP_TO_HYPHEN = re.compile(rb"\n([^\t\n]*-)[^\t\n-]*\t")


class SortedLines:
    """Lines `key<TAB>value`, each with its end, in the order of their bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        self._starts = array("I", np.concatenate([[0], ends + 1]).astype(np.uint32).tobytes())
        self._count = len(ends)
        self.get = lru_cache(maxsize=REMEMBERED)(self._get)
        """Returns the value of a key; `None` if there is none."""

    def __len__(self) -> int:
        return self._count

    def beginnings(self) -> frozenset[str]:
        """Returns each key that has a hyphen up to its last one, in lower case."""
        return frozenset(found.decode().lower() for found in _UP_TO_HYPHEN.findall(b"\n" + self._data))

    def _get(self, key: str) -> str | None:
        wanted = key.encode("utf-8", "surrogatepass")  # a lone surrogate is in no key
        index = bisect_left(range(self._count), wanted, key=self._key)
        if index == self._count or self._key(index) != wanted:
            return None
        start, stop = self._starts[index] + len(wanted) + 1, self._starts[index + 1] - 1
        return self._data[start:stop].decode()

    def _key(self, index: int) -> bytes:
        start = self._starts[index]
        return self._data[start : self._data.index(b"\t", start)]


class PhonemeTable(NamedTuple):
    """The sections of the packaged lexicon."""

    gold: SortedLines
    """Phonemes by word, checked by people; other readings follow as ` TAG=phonemes`."""
    silver: SortedLines
    """Phonemes by word, less certain."""
    names: SortedLines
    """Phonemes of words that both lack, in lower case."""
    usual: SortedLines
    """The part of speech of words that have only one."""
    frequent: SortedLines
    """Words that the weights know."""
    weights: SortedLines
    """Weights of parts of speech by feature: ` TAG=tenths`."""
    beginnings: frozenset[str]
    """Words with hyphens up to their last one, in lower case."""


@cache
def read_table() -> PhonemeTable:
    """Reads the packaged lexicon, once."""
    data = lzma.decompress(resources.files(__package__).joinpath(FILE).read_bytes())
    sections = [SortedLines(section + b"\n") for section in data.removesuffix(b"\n").split(b"\n\n")]
    gold, silver, names, usual, frequent, weights = sections
    beginnings = frozenset[str]().union(*(spoken.beginnings() for spoken in (gold, silver, names)))
    return PhonemeTable(gold, silver, names, usual, frequent, weights, beginnings)
