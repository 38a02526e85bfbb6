"""Compares the teacher before and after the codec, by word error rate and naturalness.

    python gate.py CODEC SPOKEN.tsv.gz SHARDS --recogniser path/to/ctranslate2-whisper --most 40

SHARDS are a few of the teacher's: utterances from all of them are taken, voice by voice. Train the talker once the
codec's word error rate is under 5%. Resemblyzer, if installed, compares each utterance with the teacher's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

import torch

import phonemes
from codec import TrainableCodec, read_config, restore
from rhapsode.bench.quality.judges import judges
from rhapsode.bench.quality.recogniser import make_recogniser
from rhapsode.bench.quality.words import corpus
from rhapsode.types import Clip
from speech import Speech, Spoken

RATE = 24_000
LEAST_SECONDS = 1.5


def spread(utterances: list[Spoken], most: int) -> list[Spoken]:
    """Returns so many utterances, as evenly as possible over the voices."""
    by_voice: dict[int, list[Spoken]] = {}
    for one in utterances:
        if one.frames * 0.08 >= LEAST_SECONDS:
            by_voice.setdefault(max(-1, one.voice), []).append(one)
    each = -(-most // max(1, len(by_voice)))
    return [one for ours in by_voice.values() for one in ours[:each]][:most]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codec", type=Path)
    parser.add_argument("spoken", type=Path)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--recogniser", required=True)
    parser.add_argument("--most", type=int, default=200, help="utterances")
    options = parser.parse_args()
    codec = TrainableCodec(read_config(options.codec))
    restore(codec, options.codec, torch.device("cpu"))
    codec.eval()
    speech = Speech(options.shards, 2.0, torch.device("cpu"))
    speech.load(1000)
    texts, recogniser = list(phonemes.read(options.spoken)), make_recogniser(options.recogniser)
    assert recogniser is not None
    found, _ = judges()
    spoken: dict[str, list[tuple[str, Clip]]] = {"teacher": [], "codec": []}
    some = spread(speech.utterances, options.most)
    if not some:
        raise SystemExit(
            f"no utterance in {options.shards} lasts {LEAST_SECONDS} s: in shorter ones too little is heard."
        )
    for one in some:
        meant = speech.whole([one])
        with torch.no_grad():
            heard = codec(meant, learn=False).audio.clamp(-1, 1)
        for name, audio in (("teacher", meant), ("codec", heard)):
            spoken[name].append((texts[one.sentence].text, Clip(audio[0].numpy(), RATE)))
    for name, clips in spoken.items():
        wer = corpus([(text, recogniser.transcribe(clip, "en")) for text, clip in clips]).wer
        pairs = [(clip, meant) for (_, clip), (_, meant) in zip(clips, spoken["teacher"], strict=True)]
        scores = {judge.name: fmean(judge.score(clip, meant) or 0.0 for clip, meant in pairs) for judge in found}
        print(f"{name}: WER {wer:.2%}", *(f"{judge} {score:.2f}" for judge, score in scores.items()))


if __name__ == "__main__":
    main()
