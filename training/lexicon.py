"""Writes the lexicon of the package, from the data that `phonemes.py` reads, too, and a dictionary of names.

    python lexicon.py path/to/hibari/assets path/to/cmudict.dict ../src/rhapsode/text/phonemes/english.txt.xz

The words are misaki's `us_gold` and `us_silver`, the parts of speech those of `hibari-tts`. Words that both lack, names
for the most part, are added from the CMU Pronouncing Dictionary.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import arpabet
from rhapsode.text.phonemes.table import PhonemeTable, SortedLines
from rhapsode.text.phonemes.words import Pronunciation

Lines = dict[str, str]


class Nowhere:
    """A spot that says nothing about a word."""

    tag = "NN"
    vowel_next = False
    to_next = False


def words(entries: dict[str, Any]) -> Lines:
    """Returns the default reading of each word, and the others behind it."""
    found = {}
    for word, reading in entries.items():
        readings = reading if isinstance(reading, dict) else {"DEFAULT": reading}
        others = sorted((tag, sounds) for tag, sounds in readings.items() if tag != "DEFAULT")
        found[word] = " ".join([readings["DEFAULT"], *(f"{tag}={sounds or ''}" for tag, sounds in others)])
    return found


def names(path: Path, gold: Lines, silver: Lines) -> Lines:
    """Returns the words of the dictionary that neither the lexicon nor its rules have."""
    table = PhonemeTable(*(SortedLines(section(lines)) for lines in (gold, silver, {}, {}, {}, {})))
    known = Pronunciation(table)
    return {
        word: sounds
        for word, sounds in arpabet.read(path)
        if known.of(word, Nowhere()) is None and known.of(word.capitalize(), Nowhere()) is None
    }


def weights(features: dict[str, dict[str, float]]) -> Lines:
    return {
        feature: " ".join(f"{tag}={round(value * 10)}" for tag, value in sorted(by_tag.items()))
        for feature, by_tag in features.items()
    }


def section(lines: Lines) -> bytes:
    assert not any("\t" in part or "\n" in part for line in lines.items() for part in line)
    return b"".join(sorted(f"{key}\t{value}\n".encode() for key, value in lines.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("dictionary", type=Path)
    parser.add_argument("lexicon", type=Path)
    options = parser.parse_args()

    def read(name: str) -> Any:
        return json.loads(gzip.decompress((options.assets / name).read_bytes()))

    gold, silver = (words(read(f"lexicon_us_{kind}.json.gz")) for kind in ("gold", "silver"))
    more, tagger = names(options.dictionary, gold, silver), read("tagger.json.gz")
    sections = (
        gold,
        silver,
        more,
        tagger["tagdict"],
        dict.fromkeys(tagger["vocab"], ""),
        weights(tagger["weights"]),
    )
    data = b"\n".join(map(section, sections))
    options.lexicon.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(gold)} and {len(silver)} words, {len(more)} more; {options.lexicon.stat().st_size} bytes")


if __name__ == "__main__":
    main()
