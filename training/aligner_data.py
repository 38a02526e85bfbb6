"""Writes the speech of the voice's teacher, and of voices made from it, with the time of every letter, in shards.

    python aligner_data.py aligner_sentences.txt.gz SHARDS --model teacher.onnx --processes 13 --seconds 300

Training reads shards as they appear.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from itertools import islice
from pathlib import Path

from aligner_pack import HELD_OUT
from aligner_speech import SpeltUtterance, sound, write_utterances
from aligner_voices import HibariTeacher
from teacher import sentences

SHARD_S = 90


def _work(path: Path, out: Path, model: str, worker: int, workers: int, until: float) -> None:
    teacher = HibariTeacher(model, seed=worker)
    made: list[SpeltUtterance] = []
    shards = 0
    for text in islice(sentences(path), HELD_OUT + worker, None, workers):
        said = teacher.say(text)
        if said is not None and sound(said):
            made.append(said)
        done = time.time() > until
        if made and (done or sum(one.seconds for one in made) > SHARD_S):
            write_utterances(out / f"{shards:04}-{worker:02}.npz", made)
            made, shards = [], shards + 1
        if done:
            return


def start(path: Path, out: Path, model: str, processes: int, seconds: float) -> list[multiprocessing.Process]:
    """Starts the workers; they end by themselves."""
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    until = time.time() + seconds
    team = [
        context.Process(target=_work, args=(path, out, model, worker, processes, until), daemon=True)
        for worker in range(processes)
    ]
    for member in team:
        member.start()
    return team


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--model", default="teacher.onnx")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    team = start(options.sentences, options.shards, options.model, options.processes, options.seconds)
    for member in team:
        member.join()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
