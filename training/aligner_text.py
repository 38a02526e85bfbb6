"""Writes the sentences whose speech the aligner learns from: as words, spelt with the letters it knows.

    python aligner_text.py CORPUS.txt.gz -o aligner_sentences.txt.gz --made 20000

CORPUS has one sentence per line (`corpus.py`). The package's front end writes numbers, dates and abbreviations as
words, because the aligner is given that text, too. Sentences with anything but words and pauses are dropped.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
from pathlib import Path

from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.spoken import SpokenRun
from templates import filled

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*'?")
_PAUSES = ".,;:!?"
MOST_LETTERS = 150


def spoken(text: str) -> str:
    """Returns a text as it is spoken, in words and pauses."""
    front_end = FrontEnd(TextSettings(language="en", normalise=True))
    events = [*front_end.push(text), *front_end.close()]
    said = "".join(event.text for event in events if isinstance(event, SpokenRun))
    said = said.replace("’", "'").replace("-", " ").replace("–", ", ").replace("—", ", ")
    return " ".join(re.sub(r"[\"“”()]|(?<!\w)'|'(?!\w)", "", said).split())


def words_of(text: str) -> list[str] | None:
    """Returns the words of a spoken text in lower case, or `None` if it has anything else."""
    words = [word.rstrip(_PAUSES).lower() for word in text.split()]
    return words if words and all(map(_WORD.fullmatch, words)) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--made", type=int, default=20_000, help="sentences from templates")
    options = parser.parse_args()
    rng = random.Random(1)
    with gzip.open(options.corpus, "rt", encoding="utf-8") as lines:
        found = [spoken(line) for line in lines]
    found += (spoken(filled(rng)) for _ in range(options.made))
    kept = [line for line in dict.fromkeys(found) if len(line) <= MOST_LETTERS and words_of(line)]
    rng.shuffle(kept)
    with gzip.open(options.output, "wt", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in kept)
    print(f"{len(kept)} of {len(found)} sentences, {sum(map(len, kept))} letters")


if __name__ == "__main__":
    main()
