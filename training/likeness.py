"""Measures how alike speakers sound, with Resemblyzer: presets among themselves, and clones with their references.

    python likeness.py VOICE --most 10
    python likeness.py CLONES --references FOLDER

Prints the lowest mean similarity of a speaker to itself (should be at least 0.85) and the highest of two different ones
(at most 0.75). FOLDER has one WAV file for each reference, of speakers that nothing was trained on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from rhapsode import TTS, Audio, Voice
from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.bench.quality.sound import at_16khz
from rhapsode.types import Clip


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


def clones(tts: TTS, folder: Path, texts: list[str], listener: Listener) -> None:
    found = []
    for path in sorted(folder.glob("*.wav")):
        reference = Audio.open(path)
        (meant,) = listener.embed([reference])
        made = listener.embed([tts.speak(text, voice=Voice.cloned(reference)) for text in texts])
        found.append(float(np.mean(made @ meant)))
        print(f"{path.stem}: {found[-1]:.3f}")
    print(f"clones to their references: mean {np.mean(found):.3f}, lowest {min(found):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--references", type=Path)
    parser.add_argument("--most", type=int, default=10, help="sentences of each speaker")
    options = parser.parse_args()
    texts = [prompt.text for prompt in read_prompts(most=options.most)]
    with TTS(str(options.model)) as tts:
        if options.references:
            clones(tts, options.references, texts, Listener())
        else:
            presets(tts, list(tts.engine.info.voices), texts, Listener())


if __name__ == "__main__":
    main()
