"""Kokoro on a CPU beside onnxruntime running the export of the same weights: one sentence, the same ids, in turn.

    python benchmarks/kokoro_vs_onnx.py node_modules --threads 2 --rounds 5

The folder holds the packages of npm that the family reads. Runs alternate, and ratios are medians over pairs of them,
since other programs slow both. The processor's time depends less on those; measure it with one thread, as threads that
wait for work take some of it, too. The export makes a whole sentence at once, so its first audio is its last.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from rhapsode.config import resolve
from rhapsode.engine import Engine, Source
from rhapsode.models.base import StageContext
from rhapsode.models.kokoro.config import read_config
from rhapsode.models.kokoro.folder import config_of, files_of
from rhapsode.models.kokoro.parts import kokoro_net
from rhapsode.models.kokoro.renderer import PhonemeSentence, Renderer, TimedPhonemes
from rhapsode.models.kokoro.spec import SPEC
from rhapsode.models.kokoro.text.english import american
from rhapsode.models.kokoro.voices import VoiceStyles
from rhapsode.models.registry import find
from rhapsode.types import SpeechRequest, Voice

TEXT = "The old clock in the tower struck nine as the rain began."
VOICE = "af_heart"
MOST_APART_S = 0.1


class Ours:
    def __init__(self, folder: Path) -> None:
        config = read_config(config_of({}))
        self.renderer = Renderer(kokoro_net(StageContext(SPEC, folder, {}, "cpu", "float32")), config.samples_per_frame)
        phonemes = american(TEXT)
        style = VoiceStyles(files_of(folder), config).style(VOICE, len(phonemes))
        self.sentence = PhonemeSentence((0, *(config.vocab[one] for one in phonemes), 0), style)

    @torch.inference_mode()
    def __call__(self) -> int:
        made = self.renderer.measure([self.sentence])
        timed = TimedPhonemes(self.sentence, made.durations[0].numpy(), made.prosodic[0], made.text[0])
        return self.renderer.samples([timed], torch.tensor([1])).shape[1]


class Export:
    def __init__(self, folder: Path, sentence: PhonemeSentence, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        content = b"".join(file.read_bytes() for file in files_of(folder).weights)
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._inputs = {
            "input_ids": np.array([sentence.ids], np.int64),
            "style": sentence.style[None].numpy(),
            "speed": np.ones(1, np.float32),
        }

    def __call__(self) -> int:
        return int(np.size(self._session.run(None, self._inputs)[0]))


class FirstAudio:
    """The seconds until the first samples of the engine are with a listener."""

    def __init__(self, folder: Path, threads: int) -> None:
        deployment = resolve(env={}, flags={"model": str(folder), "device": "cpu", "threads": threads})
        found = find(str(folder))
        self._engine = Engine(found.spec, deployment, Source(found.checkpoint, found.config)).start()

    def __call__(self) -> float:
        started_s = time.perf_counter()
        speech = self._engine.submit(SpeechRequest(TEXT, voice=Voice(name=VOICE), seed=1))
        speech.get()
        first_s = time.perf_counter() - started_s
        while speech.get() is not None:
            pass
        return first_s

    def stop(self) -> None:
        self._engine.stop()


class Times(NamedTuple):
    wall_s: float
    processor_s: float


def timed(run: Callable[[], object]) -> Times:
    started_s, used_s = time.perf_counter(), time.process_time()
    run()
    return Times(time.perf_counter() - started_s, time.process_time() - used_s)


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    ours = Ours(given.folder)
    theirs = Export(given.folder, ours.sentence, given.threads)
    engine = FirstAudio(given.folder, given.threads)
    audio_s = ours() / SPEC.sample_rate
    if abs(theirs() / SPEC.sample_rate - audio_s) > MOST_APART_S:
        raise SystemExit("the export makes speech of another length")
    engine()  # warms up
    runs = [(timed(ours), timed(theirs), engine()) for _ in range(given.rounds)]
    print(f"{len(ours.sentence.ids)} ids, {audio_s:.2f} s of audio, {given.threads} threads, {given.rounds} rounds")
    for name, found in (("this package", [run[0] for run in runs]), ("onnxruntime", [run[1] for run in runs])):
        wall_s, processor_s = (median(values) for values in zip(*found, strict=True))
        print(f"{name}: {wall_s * 1e3:.0f} ms, real-time factor {wall_s / audio_s:.3f}, processor {processor_s:.2f} s")
    print(f"first audio of the engine: {median(first_s for _, _, first_s in runs) * 1e3:.0f} ms")
    ratios = {
        "time": median(mine.wall_s / other.wall_s for mine, other, _ in runs),
        "processor": median(mine.processor_s / other.processor_s for mine, other, _ in runs),
        "first audio": median(first_s / other.wall_s for _, other, first_s in runs),
    }
    print("ratios:", ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    engine.stop()


if __name__ == "__main__":
    main()
