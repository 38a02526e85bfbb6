"""Writes the teacher's speech with the phoneme at every moment, in shards that training reads as they appear.

    python teacher.py SPOKEN.tsv.gz SHARDS --processes 13 --seconds 400

The teacher is `hibari-tts` (Apache-2.0). Its network predicts the duration of each phoneme; `--model` is a copy of
it that also outputs the durations (see `with_durations`).
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulses import HOP, RATE, synthesise

STEP = 600
"""Samples of the unit the teacher counts durations in."""
MOMENTS = np.array([240, 720, 1200, 1680])
"""Samples into a frame at which its phonemes are noted."""
DURATIONS = "/Cast_32_output_0"
SHARD_FRAMES = 1500
LEAST_FRAMES, MOST_FRAMES = 5, 200


class Utterance(NamedTuple):
    audio: NDArray[np.int16]  # [frames * HOP]
    phonemes: NDArray[np.uint8]  # [frames, 4]


def with_durations(model: Path, out: Path) -> None:
    """Copies the teacher's network, with its rounded durations as one more output. Needs the package `onnx`."""
    import onnx

    network = onnx.load(model)
    network.graph.output.append(onnx.helper.make_tensor_value_info(DURATIONS, onnx.TensorProto.INT64, None))
    onnx.save(network, out)


class Teacher:
    def __init__(self, model: str) -> None:
        from hibari import Hibari

        self._voice = Hibari(model=model)

    def say(self, text: str) -> Utterance | None:
        """Speaks the sentence, with a short silence around it; `None` if there is nothing to say."""
        sounds, phonemes = [np.empty(0, np.float32)], [np.empty(0, int)]
        for ids in map(self._voice.ids, self._voice.phonemize(text)):
            if len(ids) > 2:
                sound, heard = self._say(ids, sum(map(len, sounds)))
                sounds.append(sound)
                phonemes.append(heard)
        audio = np.concatenate(sounds)
        loud = np.flatnonzero(np.abs(audio) > 0.01)
        if not len(loud) or not np.isfinite(audio).all():
            return None
        said = _framed(audio, np.concatenate(phonemes))
        first, last = max(0, loud[0] - STEP) // HOP, (loud[-1] + 6 * STEP) // HOP + 1
        return Utterance(said.audio[first * HOP : last * HOP], said.phonemes[first:last])

    def _say(self, ids: list[int], start: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        feeds = {"ids": np.array([ids]), "speed": np.ones(1, np.float32)}
        *spectra, durations = self._voice.sess.run(None, feeds)
        lh, th, _, lr, phi, f0 = (part[0] for part in spectra)  # the third is noise, too quiet to be heard
        return synthesise(lh, th, lr, phi, f0, start), np.repeat(ids, durations.reshape(-1))


def _framed(audio: NDArray[np.float32], phonemes: NDArray[Any]) -> Utterance:
    frames = -(-len(audio) // HOP)
    moments = (np.arange(frames)[:, None] * HOP + MOMENTS) // STEP
    heard = np.append(phonemes, 0)[np.minimum(moments, len(phonemes))]
    samples = np.pad(audio.clip(-1, 1) * 32767, (0, frames * HOP - len(audio)))
    return Utterance(samples.round().astype(np.int16), heard.astype(np.uint8))


def sentences(path: Path) -> Iterator[str]:
    """Yields the sentences of a file, without the phonemes it may have beside them."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from (line.partition("\t")[0].strip() for line in lines)


def _work(path: Path, out: Path, model: str, worker: int, workers: int, until: float) -> None:
    teacher = Teacher(model)
    made: list[tuple[int, Utterance, int]] = []
    shards = 0
    for index, text in islice(enumerate(sentences(path)), worker, None, workers):
        utterance = teacher.say(text)
        if utterance is not None and LEAST_FRAMES <= len(utterance.phonemes) <= MOST_FRAMES:
            made.append((index, utterance, 0))
        done = time.time() > until
        if done or sum(len(said.phonemes) for _, said, _ in made) >= SHARD_FRAMES:
            write_shard(out / f"{worker:02}-{shards:04}.npz", made)
            made, shards = [], shards + 1
        if done:
            return
    write_shard(out / f"{worker:02}-{shards:04}.npz", made)


def write_shard(path: Path, made: list[tuple[int, Utterance, int]]) -> float:
    """Writes utterances with the number of their sentence and of their voice; returns their seconds."""
    if not made:
        return 0.0
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez(
            file,
            audio=np.concatenate([said.audio for _, said, _ in made]),
            phonemes=np.concatenate([said.phonemes for _, said, _ in made]),
            index=np.array([(index, len(said.phonemes), voice) for index, said, voice in made]),
        )
    unfinished.rename(path)  # a shard that has its name is whole
    return sum(len(said.audio) for _, said, _ in made) / RATE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--model", default="teacher.onnx")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    options.shards.mkdir(parents=True, exist_ok=True)
    until, workers = time.time() + options.seconds, options.processes
    common = (options.sentences, options.shards, options.model)
    team = [multiprocessing.Process(target=_work, args=(*common, i, workers, until)) for i in range(workers)]
    for member in team:
        member.start()
    for member in team:
        member.join()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
