"""Writes the sentences that the teacher speaks: from text files and from templates.

    python corpus.py TEXT... --words LEXICON.json.gz --made 60000 -o SENTENCES.txt.gz

TEXT are files with one sentence per line (we used Common Voice's sentence collection, CC0, and WordNet's example
sentences). Prose has too few numbers, names and rare words: templates and drills add them. The order is shuffled,
so that every portion of the result is like the whole.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from templates import DRILLS, filled

_SAYABLE = re.compile(r"[A-Za-z0-9 .,;:!?'\"$%&/()\-–—’“”]+")
_WORD = re.compile(r"[A-Za-z][a-z]+")
MOST_LETTERS = 180


def from_files(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        for line in map(str.strip, _text(path).splitlines()):
            if 1 < len(line) <= MOST_LETTERS and _SAYABLE.fullmatch(line):
                yield line


def _text(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")


def drilled(words: list[str], rng: random.Random) -> Iterator[str]:
    """Yields sentences of a few words each, with every word once."""
    words = rng.sample(words, len(words))
    while words:
        drill = rng.choice(DRILLS)
        used, words = words[: drill.count("{}")], words[drill.count("{}") :]
        if len(used) == drill.count("{}"):
            line = drill.format(*used)
            yield line[0].upper() + line[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, nargs="*")
    parser.add_argument("--words", type=Path, help="a JSON object whose keys are words, gzipped")
    parser.add_argument("--made", type=int, default=60_000, help="sentences from templates")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    rng = random.Random(0)
    found = list(from_files(options.text))
    found += (filled(rng) for _ in range(options.made))
    if options.words:
        words = [word for word in json.loads(_text(options.words)) if _WORD.fullmatch(word)]
        found += drilled(words, rng)
    unique = list(dict.fromkeys(found))
    rng.shuffle(unique)
    with gzip.open(options.output, "wt", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in unique)
    print(f"{len(unique)} sentences, {sum(map(len, unique))} letters")


if __name__ == "__main__":
    main()
