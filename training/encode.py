"""Turns the teacher's speech into training prompts with frames, as shards appear.

    python encode.py SENTENCES.txt.gz SHARDS MODEL LINES

MODEL holds the tokenizer and, in `speech_tokenizer`, the trained codec. Each sentence becomes a prompt with all text
first and one with a token per frame; neighbouring sentences are joined to longer prompts. Stops when no shard has
appeared for a minute.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from codec import SHAPE, TrainableCodec, read_config, restore
from lines import LADDER, LEAD, Codes, Writer
from rhapsode.models.qwen3_tts.config import read
from speech import Speech, Spoken
from teacher import sentences

HELD_OUT = 300
"""The first sentences are never learned from."""
AT_ONCE = 64
"""Utterances encoded together."""

Written = tuple[Codes, Codes]


def prompts(writer: Writer, said: list[tuple[str, Codes]], joined: bool) -> list[Written]:
    """Yields the prompts of these texts and codes, each in both layouts; `joined` adds joined neighbours."""
    found = [writer.write(text, codes, streaming) for text, codes in said for streaming in (False, True)]
    for i in range(0, len(said) - 2 if joined else 0, 2):
        some = said[i : i + 2 + i % 4 // 2]  # two, or three
        codes = np.concatenate([some[0][1], *(codes[LEAD:] for _, codes in some[1:])])
        found.append(writer.write(" ".join(text for text, _ in some), codes, streaming=i % 8 >= 4))
    return [pair for pair in found if pair is not None and len(pair[1]) <= LADDER[-1]]


def encoded(codec: TrainableCodec, speech: Speech, some: list[Spoken]) -> list[Codes]:
    codes = codec.codes(speech.whole(some, LEAD)).cpu().numpy()
    return [row[: LEAD + one.frames] for row, one in zip(codes, some, strict=True)]


def keep(path: Path, written: list[Written], held_out: bool) -> None:
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez(
            file,
            rows=np.concatenate([rows for rows, _ in written]).astype(np.int16),
            targets=np.concatenate([targets for _, targets in written]).astype(np.int16),
            lengths=np.array([len(targets) for _, targets in written]),
            held_out=held_out,
        )
    unfinished.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("shards", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("lines", type=Path)
    parser.add_argument("--hours", type=float, default=200.0, help="of speech to make room for")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = read(read_config(SHAPE), None)
    codec = TrainableCodec(read_config(options.model / "speech_tokenizer"))
    restore(codec, options.model / "speech_tokenizer", device)
    codec.to(device).eval()
    speech = Speech(options.shards, options.hours, device)
    texts, writer = list(sentences(options.sentences)), Writer(config, options.model, 0)
    options.lines.mkdir(parents=True, exist_ok=True)
    done, waited = 0, time.monotonic()
    while time.monotonic() - waited < 60:
        if not speech.load(8) and done == len(speech.utterances):
            time.sleep(0.5)
            continue
        waited = time.monotonic()
        while done < len(speech.utterances):
            some = speech.utterances[done : done + AT_ONCE]
            said = [(texts[one.sentence], codes) for one, codes in zip(some, encoded(codec, speech, some), strict=True)]
            for held_out in (False, True):
                ours = [pair for one, pair in zip(some, said, strict=True) if (one.sentence < HELD_OUT) == held_out]
                if ours:
                    path = options.lines / f"{done:07}{'-held-out' if held_out else ''}.npz"
                    keep(path, prompts(writer, ours, joined=not held_out), held_out)
            done += len(some)


if __name__ == "__main__":
    main()
