"""Teachers of the aligner: speech engines that know when they say each phoneme.

| teacher | voices | licence |
|---|---|---|
| `HibariTeacher` | the voice's own teacher, and voices made from it: other pitch and formants | Apache-2.0 |
| `KokoroTeacher` | Kokoro-82M as ONNX, American and British voices | Apache-2.0 |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aligner_speech import SpeltUtterance, WordSpan, spell, trimmed
from aligner_text import words_of
from teacher import DURATIONS

RATE = 24_000
STEP_S = 0.025
"""The unit both networks count durations in."""
LATE_S = 0.05
"""Their durations run this far behind their sound (median of 135 words that begin after silence)."""
_PAUSES = set(';:,.!?—…"()“”')


class AlignerTeacher(Protocol):
    def say(self, text: str) -> SpeltUtterance | None:
        """Speaks the sentence; `None` if its words are not those it pronounces."""
        ...


def word_spans(words: Sequence[str], phonemes: str, durations: NDArray[np.integer]) -> list[WordSpan] | None:
    """Returns when each word is said, from the phonemes and their durations (with a pad at both ends)."""
    edges = np.concatenate([[0], np.cumsum(durations)]) * STEP_S
    groups: list[list[int]] = [[]]
    for index, phoneme in enumerate(phonemes):
        if phoneme == " ":
            groups.append([])
        elif phoneme not in _PAUSES:
            groups[-1].append(index + 1)  # a pad comes first
    groups = [group for group in groups if group]
    if len(groups) != len(words):
        return None
    starts = [edges[group[0]] - LATE_S for group in groups]
    spans = []
    for word, group, following in zip(words, groups, [*starts[1:], np.inf], strict=True):
        times = edges[[*group, group[-1] + 1]] - LATE_S
        times[-1] = min(times[-1] + LATE_S, following)  # no gap where words follow each other closely
        spans.append(WordSpan(word, times))
    return spans


class Phonemes:
    """Phonemes of a sentence, in the alphabet that both networks were trained on."""

    def __init__(self, british: bool) -> None:
        from hibari.g2p import G2P

        self._g2p = G2P(british=british)

    def __call__(self, text: str, vocabulary: dict[str, int]) -> str:
        return "".join(phoneme for phoneme in self._g2p(text) or "" if phoneme in vocabulary)


class Tract(NamedTuple):
    """How a made voice differs: factors of its pitch, its formants and its pace."""

    pitch: float = 1.0
    formants: float = 1.0
    pace: float = 1.0

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Tract:
        """Every other voice is the teacher's own; formants and pitch of the others move together, mostly."""
        pace = float(np.exp(rng.normal(0, 0.2)).clip(0.6, 1.8))
        if rng.random() < 0.4:
            return cls(pace=pace)
        formants = float(np.exp(rng.uniform(-0.24, 0.2)))
        return cls(float(formants ** rng.uniform(1, 3.5) * np.exp(rng.normal(0, 0.1))), formants, pace)


class HibariTeacher:
    def __init__(self, model: str, seed: int) -> None:
        from hibari import Hibari

        self._voice = Hibari(model=model)
        self._phonemes = Phonemes(british=False)
        self._rng = np.random.default_rng(seed)

    def say(self, text: str, tract: Tract | None = None) -> SpeltUtterance | None:
        words = words_of(text)
        phonemes = self._phonemes(text, self._voice.vocab)
        if words is None or not phonemes or len(phonemes) > 400:
            return None
        tract = tract or Tract.drawn(self._rng)
        feeds = {"ids": np.array([self._voice.ids(phonemes)]), "speed": np.array([tract.pace], np.float32)}
        *spectra, durations = self._voice.sess.run(None, feeds)
        spans = word_spans(words, phonemes, durations.reshape(-1))
        if spans is None:
            return None
        audio = self._sound([part[0] for part in spectra], tract)
        return spell(RATE, audio, trimmed(spans, audio, RATE))

    def _sound(self, spectra: list[NDArray[np.float32]], tract: Tract) -> NDArray[np.float32]:
        from hibari import dsp

        *parts, f0 = spectra
        if tract.formants != 1.0:
            bins = len(parts[0])
            source = np.minimum((np.arange(bins) / tract.formants).round().astype(int), bins - 1)
            parts = [part[source] for part in parts]
        return dsp.synth(*parts, np.where(f0 > 40, (f0 * tract.pitch).clip(45, 600), f0), self._rng)


class KokoroTeacher:
    """`model` is a copy of the network that also outputs the durations: `with_output(model, KOKORO_DURATIONS, out)`."""

    def __init__(self, model: Path, voices: Path, threads: int = 1) -> None:
        import json

        import hibari
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        assets = Path(hibari.__file__).parent / "assets"
        self._vocabulary: dict[str, int] = json.loads((assets / "vocab.json").read_text("utf-8"))
        self._styles = {
            path.stem: np.fromfile(path, np.float32).reshape(-1, 1, 256)
            for path in sorted(voices.glob("[ab][fm]_*.bin"))
        }
        self._phonemes = {british: Phonemes(british) for british in (False, True)}

    @property
    def voices(self) -> tuple[str, ...]:
        return tuple(self._styles)

    def say(self, text: str, voice: str, pace: float = 1.0) -> SpeltUtterance | None:
        words = words_of(text)
        phonemes = self._phonemes[voice[0] == "b"](text, self._vocabulary)
        if words is None or not phonemes or len(phonemes) > 400:
            return None
        feeds: dict[str, Any] = {
            "input_ids": np.array([[0, *(self._vocabulary[phoneme] for phoneme in phonemes), 0]]),
            "style": self._styles[voice][len(phonemes)],
            "speed": np.array([pace], np.float32),
        }
        waveform, durations = self._session.run(None, feeds)
        spans = word_spans(words, phonemes, durations.reshape(-1))
        audio = waveform.reshape(-1)
        return spell(RATE, audio, trimmed(spans, audio, RATE)) if spans else None


KOKORO_DURATIONS = "/encoder/Cast_output_0"
HIBARI_DURATIONS = DURATIONS


def with_output(model: Path, tensor: str, out: Path) -> None:
    """Copies a network, with one more output of integers. Needs the package `onnx`."""
    import onnx

    network = onnx.load(model)
    network.graph.output.append(onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.INT64, None))
    onnx.save(network, out)
