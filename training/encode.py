"""Turns the teacher's speech into training prompts with frames, as shards appear.

    python encode.py SPOKEN.tsv.gz SHARDS MODEL LINES --codes CODES --processes 4

MODEL holds the tokenizer and, in `speech_tokenizer`, the trained codec; `speaker` holds the speaker encoder,
without which clones are left out. Each sentence becomes a prompt with all text first and one with a token per frame;
neighbouring sentences of one voice are joined to longer prompts. Stops when no shard has appeared for a minute.

CODES keeps what was encoded, 2.5 MB for an hour: as long as the codec's encoder stays as it is, a later run makes its
prompts from there and needs no speech.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import multiprocessing

import phonemes
from codec import TrainableCodec, read_config, restore
from lines import LADDER, LEAD, Codes, Writer
from rhapsode.models.qwen3_tts.config import read
from shape import talker_config
from speaker import TrainedSpeaker
from speech import Speech, Spoken

AT_ONCE = 64
"""Utterances encoded together."""


class Encoded(NamedTuple):
    """An utterance: its sentence, its codes, and who speaks."""

    sentence: int
    codes: Codes
    voice: int
    speaker: NDArray[np.float16]  # [hidden], of another utterance of this voice; zeros for a preset


class Prompted(NamedTuple):
    rows: Codes
    targets: Codes
    speaker: NDArray[np.float16]


class Prompts:
    """Writes the prompts of utterances, each in both layouts, and joined neighbours; the first sentences apart."""

    def __init__(self, spoken: Path, model: Path, folder: Path, held_out: int, seed: int, streaming: int = 1) -> None:
        """`streaming`: of each sentence so many prompts with a token per frame."""
        self._texts = list(phonemes.read(spoken))
        self._writer = Writer(read(talker_config(), None), model, seed)
        self._rng = random.Random(seed)
        self._folder, self._held_out, self._streaming = folder, held_out, streaming

    def write(self, name: str, said: list[Encoded]) -> None:
        learned = [one for one in said if one.sentence >= self._held_out]
        held_out = [one for one in said if one.sentence < self._held_out]
        _keep(self._folder / f"{name}.npz", self._of(learned, joined=True), False)
        _keep(self._folder / f"{name}-held-out.npz", self._of(held_out, joined=False), True)

    def _of(self, said: list[Encoded], joined: bool) -> list[Prompted]:
        texts = [phonemes.mixed(self._texts[one.sentence], self._rng) for one in said]
        found = [self._prompt([i], said, texts, streaming) for i in range(len(said)) for streaming in (False, True)]
        for _ in range(self._streaming - 1 if joined else 0):
            again = [phonemes.mixed(self._texts[one.sentence], self._rng) for one in said]
            found += [self._prompt([i], said, again, streaming=True) for i in range(len(said))]
        for number, some in enumerate(_neighbours(said) if joined else ()):
            found.append(self._prompt(some, said, texts, streaming=number % 2 == 1))
        return [one for one in found if one is not None and len(one.targets) <= LADDER[-1]]

    def _prompt(self, some: list[int], said: list[Encoded], texts: list[str], streaming: bool) -> Prompted | None:
        first = said[some[0]]
        codes = np.concatenate([first.codes, *(said[i].codes[LEAD:] for i in some[1:])])
        written = self._writer.write(" ".join(texts[i] for i in some), codes, streaming, first.voice)
        return None if written is None else Prompted(*written, first.speaker)


def _neighbours(said: list[Encoded]) -> Iterator[list[int]]:
    """Yields two or three consecutive sentences of one voice."""
    for i in range(0, len(said) - 1, 2):
        some = list(range(i, min(len(said), i + 2 + i % 4 // 2)))
        if all(said[other].voice == said[i].voice for other in some):
            yield some


class Encoder:
    def __init__(self, model: Path, speech: Speech, device: torch.device) -> None:
        self._codec = TrainableCodec(read_config(model / "speech_tokenizer"))
        restore(self._codec, model / "speech_tokenizer", device)
        self._codec.to(device).eval()
        self._speech = speech
        self._speaker = TrainedSpeaker.read(model, device)
        self._width = talker_config()["talker_config"]["hidden_size"]
        self._rng = random.Random(0)

    def encode(self, some: list[Spoken]) -> list[Encoded]:
        """Encodes utterances; clones only if there is a speaker encoder."""
        if self._speaker is None:
            some = [one for one in some if one.voice >= 0]
        if not some:
            return []
        codes = self._codec.codes(self._speech.whole(some, LEAD)).cpu().numpy()
        return [
            Encoded(one.sentence, row[: LEAD + one.frames], one.voice, self._heard(one, some))
            for row, one in zip(codes, some, strict=True)
        ]

    def _heard(self, one: Spoken, some: list[Spoken]) -> NDArray[np.float16]:
        if one.voice >= 0 or self._speaker is None:
            return np.zeros(self._width, np.float16)
        others = [other for other in some if other.voice == one.voice and other.sentence != one.sentence]
        return self._speaker.embed(self._speech.whole([self._rng.choice(others or [one])])[0, 0])


def _keep(path: Path, written: list[Prompted], held_out: bool) -> None:
    if written:
        _save(
            path,
            rows=np.concatenate([one.rows for one in written]).astype(np.int16),
            targets=np.concatenate([one.targets for one in written]).astype(np.int16),
            lengths=np.array([len(one.targets) for one in written]),
            speakers=np.stack([one.speaker for one in written]),
            held_out=np.array(held_out),
        )


def keep_codes(path: Path, said: list[Encoded]) -> None:
    """Writes utterances; presets have no vector."""
    if said:
        _save(
            path,
            about=np.array([(one.sentence, len(one.codes), one.voice) for one in said], np.int32),
            codes=np.concatenate([one.codes for one in said]).astype(np.int16),
            speakers=np.stack([one.speaker for one in said if one.voice < 0] or [np.zeros(0, np.float16)]),
        )


def read_codes(path: Path, width: int) -> list[Encoded]:
    """Reads what `keep_codes` wrote; `width` of a speaker vector."""
    with np.load(path) as file:
        about, codes, speakers = file["about"], file["codes"], iter(file["speakers"])
    ends = np.cumsum(about[:, 1])
    nobody = np.zeros(width, np.float16)
    return [
        Encoded(sentence, codes[end - frames : end], voice, next(speakers) if voice < 0 else nobody)
        for (sentence, frames, voice), end in zip(about.tolist(), ends.tolist(), strict=True)
    ]


def _save(path: Path, **arrays: np.ndarray) -> None:
    """Writes a file that appears when it is complete."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez(file, **arrays)
    unfinished.rename(path)


def _work(options: argparse.Namespace, worker: int) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pages = Prompts(options.spoken, options.model, options.lines, options.held_out, worker, options.streaming)
    width = talker_config()["talker_config"]["hidden_size"]
    kept = sorted(options.codes.glob("*.npz"))[worker :: options.processes] if options.codes else []
    for again in range(options.rounds):
        for path in kept:
            said = [one for one in read_codes(path, width) if one.voice not in options.leave_out]
            pages.write(f"kept-{again}-{path.stem}", said[again % 2 :])
    if not options.wait:
        return
    share = (worker, options.processes)
    speech = Speech(options.shards, options.hours / options.processes, device, share)
    encoder = Encoder(options.model, speech, device)
    done, waited, begun = 0, time.monotonic(), int(time.time())
    while time.monotonic() - waited < options.wait:
        if not speech.load(8) and done == len(speech.utterances):
            time.sleep(0.5)
            continue
        waited = time.monotonic()
        while done < len(speech.utterances):
            some = speech.utterances[done : done + AT_ONCE]
            said, name = encoder.encode(some), f"{begun}-{worker:02}-{done:07}"
            if options.codes:
                keep_codes(options.codes / f"{name}.npz", said)
            pages.write(name, said)
            done += len(some)
            torch.cuda.empty_cache()  # batches have many sizes, and others need the memory
    print(f"{len(kept)} kept files, then {done} utterances, {speech.hours:.2f} h", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spoken", type=Path)
    parser.add_argument("shards", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("lines", type=Path)
    parser.add_argument("--codes", type=Path, help="where utterances are kept, and read if there are any")
    parser.add_argument("--leave-out", type=int, nargs="*", default=(), help="presets whose kept codes are not used")
    parser.add_argument("--rounds", type=int, default=1, help="prompts of the same codes, with other words in letters")
    parser.add_argument("--streaming", type=int, default=1, help="prompts of a sentence with a token per frame")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--hours", type=float, default=100.0, help="of speech to make room for")
    parser.add_argument("--held-out", type=int, default=300, help="first sentences that are never learned from")
    parser.add_argument("--wait", type=float, default=60.0, help="for a new shard, in seconds; 0: kept codes only")
    options = parser.parse_args()
    for folder in filter(None, (options.lines, options.codes)):
        folder.mkdir(parents=True, exist_ok=True)
    if options.processes == 1:
        _work(options, 0)
        return
    context = multiprocessing.get_context("spawn")
    team = [context.Process(target=_work, args=(options, worker)) for worker in range(options.processes)]
    for member in team:
        member.start()
    for member in team:
        member.join()


if __name__ == "__main__":
    main()
