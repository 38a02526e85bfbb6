"""Compares the teacher before and after the codec, by word error rate and naturalness.

    python gate.py CODEC --recogniser path/to/ctranslate2-whisper --most 40

Train the talker once the codec's word error rate is under 5%.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

import torch

from codec import TrainableCodec, read_config, restore
from rhapsode.bench.quality.judges import judges
from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.bench.quality.recogniser import make_recogniser
from rhapsode.bench.quality.words import corpus
from rhapsode.types import Clip
from teacher import Teacher

RATE = 24_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codec", type=Path)
    parser.add_argument("--recogniser", required=True)
    parser.add_argument("--model", default="teacher.onnx")
    parser.add_argument("--most", type=int, default=200, help="prompts")
    options = parser.parse_args()
    codec = TrainableCodec(read_config(options.codec))
    restore(codec, options.codec, torch.device("cpu"))
    codec.eval()
    teacher, recogniser = Teacher(options.model), make_recogniser(options.recogniser)
    assert recogniser is not None
    found, _ = judges()
    spoken: dict[str, list[tuple[str, Clip]]] = {"teacher": [], "codec": []}
    for prompt in read_prompts(most=options.most):
        said = teacher.say(prompt.text)
        assert said is not None
        meant = torch.from_numpy(said.audio).float()[None, None] / 32768
        with torch.no_grad():
            heard = codec(meant, learn=False).audio.clamp(-1, 1)
        for name, audio in (("teacher", meant), ("codec", heard)):
            spoken[name].append((prompt.text, Clip(audio[0].numpy(), RATE)))
    for name, clips in spoken.items():
        wer = corpus([(text, recogniser.transcribe(clip, "en")) for text, clip in clips]).wer
        scores = {judge.name: fmean(judge.score(clip, None) or 0.0 for _, clip in clips) for judge in found}
        print(f"{name}: WER {wer:.2%}", *(f"{judge} {score:.2f}" for judge, score in scores.items()))


if __name__ == "__main__":
    main()
