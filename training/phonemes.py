"""Writes the phonemes beside each sentence, for the teacher and for the talker.

    python phonemes.py SENTENCES.txt.gz SPOKEN.tsv.gz

Each line of SPOKEN is a sentence, a tab, and its phonemes in Kokoro's alphabet. They come from the lexicon and the
rules of `hibari-tts` (Apache-2.0), which is needed here alone: the training machine reads the file.
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PHONED = 0.7
"""Share of the sentences that the talker reads as phonemes; it reads the others as letters."""
SPELLED = 0.1
"""Share of the words in letters in a sentence of phonemes: so are words that no lexicon has."""
_SHIFT = 0x0400
MOST_PHONEMES = 400
MOST_LETTERS = 300
"""Of a sentence."""


class Line(NamedTuple):
    text: str
    phonemes: str


def read(path: Path) -> Iterator[Line]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            text, _, phonemes = line.rstrip("\n").partition("\t")
            yield Line(text, phonemes)


def respelled(phonemes: str) -> str:
    """Returns phonemes as letters that no English word has: the ASCII ones, also letters, move to another alphabet."""
    return "".join(chr(_SHIFT + ord(sound)) if sound.isascii() and sound.isalpha() else sound for sound in phonemes)


def mixed(line: Line, rng: random.Random) -> str:
    """Returns what the talker reads: phonemes with a few words in letters, or letters."""
    if not line.phonemes or rng.random() >= PHONED:
        return line.text
    words, sounds = line.text.split(), line.phonemes.split()
    if len(words) != len(sounds):
        return respelled(line.phonemes)
    return " ".join(
        word if rng.random() < SPELLED else respelled(sound) for word, sound in zip(words, sounds, strict=True)
    )


@cache
def _ids() -> dict[str, int]:
    import json

    from hibari.tts import ASSETS

    return json.loads((Path(ASSETS) / "vocab.json").read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("spoken", type=Path)
    parser.add_argument("--most", type=int, help="sentences")
    options = parser.parse_args()
    from hibari.g2p import G2P

    sound, known = G2P(british=False), set(_ids())
    with (
        gzip.open(options.sentences, "rt", encoding="utf-8") as lines,
        gzip.GzipFile(options.spoken, "wb", mtime=0) as out,
    ):
        written = 0
        for text in map(str.strip, lines):
            phonemes = "".join(one for one in sound(text) if one in known)
            if 1 < len(phonemes) <= MOST_PHONEMES:
                out.write(f"{text}\t{phonemes}\n".encode())
                written += 1
            if written == options.most:
                break
    print(f"{written} sentences with phonemes")


if __name__ == "__main__":
    main()
