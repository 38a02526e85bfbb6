"""Writes the lexicon of the package, from the data that `phonemes.py` reads, too, and a dictionary of names.

    python lexicon.py hibari/assets cmudict.dict names ../src/rhapsode/text/phonemes/english.txt.xz

The words are misaki's `us_gold` and `us_silver`, the parts of speech those of `hibari-tts`. Words that both lack, names
for the most part, are added from the CMU Pronouncing Dictionary. It decides for frequent given names, too (`names` has
the lists of the US census): to misaki, Anna is a coin and Karen a people.
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

GIVEN_NAMES = 700
"""The most frequent ones, of women and of men. Of rarer names the dictionary is no better than misaki."""
CORRECTED = {
    "Caleb": "kˈAləb",
    "Elena": "əlˈAnə",
    "Elias": "əlˈIəs",
    "Graham": "ɡɹˈAəm",
    "Hans": "hˈɑns",
    "Isabelle": "ˈɪzəbˌɛl",
    "Mercedes": "məɹsˈAdiz",
    "Pierre": "piˈɛɹ",
    "buttons": "bˈʌtᵊnz",
    "crooked": "kɹˈʊkɪd",
    "jagged": "ʤˈæɡɪd",
    "ragged": "ɹˈæɡɪd",
}
"""What both have wrong. Of the adjectives misaki has a verb, too, and most often they are taken for it."""
_ALIKE = str.maketrans({"ɾ": "t", "T": "t", "ᵊ": "ə", "ᵻ": "ə", "ɪ": "ə", "ˈ": None, "ˌ": None})


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
    known = Pronunciation(_table(gold, silver))
    return {
        word: sounds
        for word, sounds in arpabet.read(path)
        if known.of(word, Nowhere()) is None and known.of(word.capitalize(), Nowhere()) is None
    }


def given_names(folder: Path, dictionary: Path, gold: Lines, silver: Lines) -> Lines:
    """Returns the readings of frequent given names that sound different in the dictionary."""
    frequency = {}
    for path in (folder / "dist.female.first", folder / "dist.male.first"):
        for name, share, *_ in map(str.split, path.read_text("utf-8").splitlines()):
            frequency[name.lower()] = max(float(share), frequency.get(name.lower(), 0.0))
    known = Pronunciation(_table(gold, silver))
    spoken = dict(reversed(list(arpabet.read(dictionary))))  # of several readings the first
    found = {}
    for name in sorted(frequency, key=lambda name: -frequency[name])[:GIVEN_NAMES]:
        now = known.of(name.capitalize(), Nowhere())
        if name in spoken and now is not None and now.translate(_ALIKE) != spoken[name].translate(_ALIKE):
            found[name.capitalize()] = spoken[name]
    return found


def weights(features: dict[str, dict[str, float]]) -> Lines:
    return {
        feature: " ".join(f"{tag}={round(value * 10)}" for tag, value in sorted(by_tag.items()))
        for feature, by_tag in features.items()
    }


def _table(gold: Lines, silver: Lines) -> PhonemeTable:
    return PhonemeTable(
        *(SortedLines(section(lines)) for lines in (gold, silver, {}, {}, {}, {})), beginnings=frozenset()
    )


def section(lines: Lines) -> bytes:
    assert not any("\t" in part or "\n" in part for line in lines.items() for part in line)
    return b"".join(sorted(f"{key}\t{value}\n".encode() for key, value in lines.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("dictionary", type=Path)
    parser.add_argument("given_names", type=Path, metavar="names")
    parser.add_argument("lexicon", type=Path)
    options = parser.parse_args()

    def read(name: str) -> Any:
        return json.loads(gzip.decompress((options.assets / name).read_bytes()))

    gold, silver = (words(read(f"lexicon_us_{kind}.json.gz")) for kind in ("gold", "silver"))
    gold |= given_names(options.given_names, options.dictionary, gold, silver) | CORRECTED
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
