"""Turns the teacher's speech into training prompts with frames, as shards appear.

    python encode.py SPOKEN.tsv.gz SHARDS MODEL LINES

MODEL holds the tokenizer and, in `speech_tokenizer`, the trained codec; `speaker` holds the speaker encoder,
without which clones are left out. Each sentence becomes a prompt with all text first and one with a token per frame;
neighbouring sentences of one voice are joined to longer prompts. Stops when no shard has appeared for a minute.
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
    """An utterance, ready to be written: what the talker reads, the codes, and who speaks."""

    sentence: int
    text: str
    codes: Codes
    voice: int
    speaker: NDArray[np.float16]  # [hidden], of another utterance of this voice; zeros for a preset


class Prompted(NamedTuple):
    rows: Codes
    targets: Codes
    speaker: NDArray[np.float16]


def prompts(writer: Writer, said: list[Encoded], joined: bool) -> list[Prompted]:
    """Returns the prompts of these utterances, each in both layouts; `joined` adds joined neighbours."""
    found = [_prompt(writer, [one], streaming) for one in said for streaming in (False, True)]
    for i, some in enumerate(_neighbours(said) if joined else ()):
        found.append(_prompt(writer, some, streaming=i % 2 == 1))
    return [one for one in found if one is not None and len(one.targets) <= LADDER[-1]]


def _neighbours(said: list[Encoded]) -> Iterator[list[Encoded]]:
    """Yields two or three consecutive sentences of one voice."""
    for i in range(0, len(said) - 1, 2):
        some = said[i : i + 2 + i % 4 // 2]
        if all(one.voice == some[0].voice for one in some):
            yield some


def _prompt(writer: Writer, some: list[Encoded], streaming: bool) -> Prompted | None:
    codes = np.concatenate([some[0].codes, *(one.codes[LEAD:] for one in some[1:])])
    written = writer.write(" ".join(one.text for one in some), codes, streaming, some[0].voice)
    return None if written is None else Prompted(*written, some[0].speaker)


class Encoder:
    def __init__(self, spoken: Path, model: Path, speech: Speech, device: torch.device) -> None:
        self._codec = TrainableCodec(read_config(model / "speech_tokenizer"))
        restore(self._codec, model / "speech_tokenizer", device)
        self._codec.to(device).eval()
        self._speech = speech
        self._texts = list(phonemes.read(spoken))
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
            Encoded(
                one.sentence,
                phonemes.mixed(self._texts[one.sentence], self._rng),
                row[: LEAD + one.frames],
                one.voice,
                self._heard(one, some),
            )
            for row, one in zip(codes, some, strict=True)
        ]

    def _heard(self, one: Spoken, some: list[Spoken]) -> NDArray[np.float16]:
        if one.voice >= 0 or self._speaker is None:
            return np.zeros(self._width, np.float16)
        others = [other for other in some if other.voice == one.voice and other.sentence != one.sentence]
        return self._speaker.embed(self._speech.whole([self._rng.choice(others or [one])])[0, 0])


def keep(path: Path, written: list[Prompted], held_out: bool) -> None:
    if not written:
        return
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez(
            file,
            rows=np.concatenate([one.rows for one in written]).astype(np.int16),
            targets=np.concatenate([one.targets for one in written]).astype(np.int16),
            lengths=np.array([len(one.targets) for one in written]),
            speakers=np.stack([one.speaker for one in written]),
            held_out=held_out,
        )
    unfinished.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spoken", type=Path)
    parser.add_argument("shards", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("lines", type=Path)
    parser.add_argument("--hours", type=float, default=200.0, help="of speech to make room for")
    parser.add_argument("--held-out", type=int, default=300, help="first sentences that are never learned from")
    parser.add_argument("--wait", type=float, default=60.0, help="seconds without a shard before it ends")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    speech = Speech(options.shards, options.hours, device)
    encoder = Encoder(options.spoken, options.model, speech, device)
    writer = Writer(read(talker_config(), None), options.model, 0)
    options.lines.mkdir(parents=True, exist_ok=True)
    done, waited = 0, time.monotonic()
    while time.monotonic() - waited < options.wait:
        if not speech.load(8) and done == len(speech.utterances):
            time.sleep(0.5)
            continue
        waited = time.monotonic()
        while done < len(speech.utterances):
            some = speech.utterances[done : done + AT_ONCE]
            said = encoder.encode(some)
            for held_out in (False, True):
                ours = [one for one in said if (one.sentence < options.held_out) == held_out]
                path = options.lines / f"{done:07}{'-held-out' if held_out else ''}.npz"
                keep(path, prompts(writer, ours, joined=not held_out), held_out)
            done += len(some)
    print(f"{done} utterances, {speech.hours:.2f} h")


if __name__ == "__main__":
    main()
