"""Writes the sentences that the teacher speaks: from text files and from templates.

    python corpus.py TEXT... --words LEXICON.json.gz --made 60000 -o SENTENCES.txt.gz

TEXT are files with one sentence per line (we used Common Voice's sentence collection, CC0, and WordNet's example
sentences). Prose has too few numbers, names and rare words: templates and drills add them. The order is shuffled,
so that every portion of the result is like the whole.

Numbers and abbreviations are written as words, as the voice reads them: by the package's own normaliser. The prompts
of `rhapsode bench quality`, ours and 500 generated ones, are left out, however they are written.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import everyday
from phonemes import MOST_LETTERS
from rhapsode.bench.quality.generated import generate
from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.spoken import SpokenRun
from templates import DRILLS, filled

_SAYABLE = re.compile(r"[A-Za-z0-9 .,;:!?'\"$%&/()\-–—’“”]+")
_WORD = re.compile(r"[A-Za-z][a-z]+")
_LETTERS = re.compile(r"[a-z]+")
EVALUATED = 500
"""Generated prompts of each seed that are left out."""
SEEDS = range(10)


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


def lengthened(found: list[str], count: int, rng: random.Random) -> Iterator[str]:
    """Yields long sentences: two to five statements joined into one."""
    statements = [line for line in found if line.endswith(".") and 15 < len(line) < 90 and line.count(".") == 1]
    for _ in range(count):
        yield everyday.joined(rng.sample(statements, rng.randrange(2, 6)), rng, MOST_LETTERS)


def spoken(line: str) -> str:
    """Returns the sentence as the voice is given it: numbers and the like as words."""
    front = FrontEnd(TextSettings(language="en", normalise=True))
    return "".join(run.text for run in (*front.push(line), *front.close()) if isinstance(run, SpokenRun))


def key(line: str) -> str:
    """Returns what two sentences with the same words have in common."""
    return " ".join(_LETTERS.findall(line.lower()))


def held_out() -> set[str]:
    """Returns the keys of the sentences that the voice is evaluated with."""
    prompts = [*read_prompts(), *(prompt for seed in SEEDS for prompt in generate(EVALUATED, seed))]
    return {key(spoken(prompt.text)) for prompt in prompts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, nargs="*")
    parser.add_argument("--words", type=Path, help="a JSON object whose keys are words, gzipped")
    parser.add_argument("--drilled", type=int, default=100_000, help="words of it at most")
    parser.add_argument("--from-files", type=int, default=1_000_000, help="sentences of the files at most")
    parser.add_argument("--made", type=int, default=60_000, help="sentences from templates")
    parser.add_argument("--long", type=int, default=10_000, help="long sentences")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    found = list(from_files(options.text))
    found = rng.sample(found, min(len(found), options.from_files))
    found += (rng.choice((filled, everyday.sentence))(rng) for _ in range(options.made))
    found += lengthened(found, options.long, rng)
    if options.words:
        words = [word for word in json.loads(_text(options.words)) if _WORD.fullmatch(word)]
        found += drilled(rng.sample(words, min(len(words), options.drilled)), rng)
    evaluated = held_out()
    unique = {key(line): line for line in map(spoken, found) if len(line) <= MOST_LETTERS}
    lines = [line for same, line in unique.items() if same and same not in evaluated]
    rng.shuffle(lines)
    with gzip.GzipFile(options.output, "wb", mtime=0) as out:
        out.write("".join(f"{line}\n" for line in lines).encode())
    print(f"{len(lines)} sentences, {sum(map(len, lines))} letters")


if __name__ == "__main__":
    main()
