"""Measures how alike speakers sound, with Resemblyzer: presets among themselves, and clones with their references.

    python likeness.py VOICE --most 10
    python likeness.py CLONES --references FOLDER

Prints the lowest mean similarity of a speaker to itself (should be at least 0.85) and the highest of two different ones
(at most 0.75). FOLDER has NAME.wav for each reference, of speakers that nothing was trained on, and NAME.txt with its
words: then clones with its codes in the prompt are compared with clones from the speaker vector alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rhapsode import TTS, Audio, Voice
from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.bench.quality.recogniser import make_recogniser
from rhapsode.bench.quality.sound import at_16khz
from rhapsode.bench.quality.words import corpus
from rhapsode.errors import GenerationFailed
from rhapsode.types import Clip

Hear = Callable[[Clip], str]


class Listener:
    def __init__(self) -> None:
        import resemblyzer

        self._package = resemblyzer
        self._encoder = resemblyzer.VoiceEncoder("cpu", verbose=False)

    def embed(self, clips: Sequence[Clip]) -> np.ndarray:
        """Returns unit vectors, `[clips, 256]`."""
        return np.stack([self._encoder.embed_utterance(self._prepared(at_16khz(clip))) for clip in clips])

    def _prepared(self, samples: np.ndarray) -> np.ndarray:
        """Returns the speech of a clip without pauses; where none is found, all of it: empty clips are all alike."""
        speech: np.ndarray = self._package.preprocess_wav(samples, 16_000)
        return speech if speech.size else samples


def among(vectors: np.ndarray) -> float:
    """Returns the mean similarity of different clips of one speaker."""
    return float(np.mean([a @ b for a, b in combinations(vectors, 2)]))


def presets(tts: TTS, names: list[str], texts: list[str], listener: Listener) -> None:
    heard = {name: listener.embed([tts.speak(text, voice=name) for text in texts]) for name in names}
    same = {name: among(vectors) for name, vectors in heard.items()}
    different = {(a, b): float(np.mean(heard[a] @ heard[b].T)) for a, b in combinations(names, 2)}
    for name, value in same.items():
        print(f"{name}: {value:.3f} to itself")
    print(f"same speaker: lowest {min(same.values()):.3f}")
    for a, b in sorted(different, key=different.__getitem__)[-1:]:
        print(f"different speakers: highest {different[a, b]:.3f} ({a} and {b})")


@dataclass(frozen=True)
class CloneWay:
    """One way to clone, and what came of it. Speech that failed is neither alike nor understood."""

    name: str
    options: dict[str, Any]
    with_text: bool = False

    def measure(self, tts: TTS, reference: tuple[Clip, str | None], texts: list[str], hear: Hear | None) -> Clones:
        clip, said = reference
        voice = Voice.cloned(clip, said if self.with_text else None)
        made, heard = [], []
        for seed, text in enumerate(texts):
            try:
                speech: Clip | None = tts.speak(text, voice=voice, seed=seed, **self.options)
            except GenerationFailed:
                speech = None
            made.append(speech)
            heard.append((text, hear(speech) if hear and speech is not None else ""))
        return Clones([clip for clip in made if clip is not None], len(texts), corpus(heard).wer if hear else None)


@dataclass(frozen=True)
class Clones:
    clips: list[Clip]
    asked: int
    wer: float | None


WAYS = (
    CloneWay("vector", {"x_vector_only_mode": True}),
    CloneWay("codes", {"x_vector_only_mode": False}, with_text=True),
)
"""The speaker vector alone, and the reference's codes and words in the prompt besides."""


def clones(tts: TTS, folder: Path, texts: list[str], listener: Listener, hear: Hear | None) -> None:
    """Prints for every reference and way: mean similarity to it, similarity to the most similar other reference, how
    many clips are nearest to their own reference, and the word error rate."""
    paths = sorted(folder.glob("*.wav"))
    meant = listener.embed([Audio.open(path) for path in paths])
    found: dict[str, list[tuple[float, float]]] = {}
    for number, path in enumerate(paths):
        words = path.with_suffix(".txt")
        reference = Audio.open(path), words.read_text("utf-8").strip() if words.is_file() else None
        for way in WAYS:
            if way.with_text and reference[1] is None:
                continue
            made = way.measure(tts, reference, texts, hear)
            alike = listener.embed(made.clips) @ meant.T if made.clips else np.zeros((1, len(paths)))
            others = np.delete(alike.mean(0), number)
            nearest = int((alike.argmax(1) == number).sum()) if made.clips else 0
            found.setdefault(way.name, []).append((float(alike[:, number].mean()), made.wer or 0.0))
            print(
                f"{path.stem}, {way.name}: {found[way.name][-1][0]:.3f}; to another reference at most "
                f"{others.max() if others.size else 0:.3f}; nearest to its own {nearest} of {made.asked}"
                + (f"; WER {made.wer:.1%}" if made.wer is not None else ""),
                flush=True,
            )
    for name, values in found.items():
        alike, wer = zip(*values, strict=True)
        figures = f"similarity mean {np.mean(alike):.3f}, lowest {min(alike):.3f}"
        print(f"{name}: {len(values)} references, {figures}" + (f", WER mean {np.mean(wer):.1%}" if hear else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--references", type=Path)
    parser.add_argument("--recogniser", help="hears the clones, too: what faster-whisper takes")
    parser.add_argument("--most", type=int, default=10, help="sentences of each speaker")
    options = parser.parse_args()
    texts = [prompt.text for prompt in read_prompts(most=options.most)]
    recogniser = make_recogniser(options.recogniser or "none")
    with TTS(str(options.model)) as tts:
        if options.references:
            hear = (lambda clip: recogniser.transcribe(clip, "en")) if recogniser else None
            clones(tts, options.references, texts, Listener(), hear)
        else:
            presets(tts, list(tts.engine.info.voices), texts, Listener())


if __name__ == "__main__":
    main()
