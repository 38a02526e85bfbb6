"""Models that score voice and sound, used if they are installed: Resemblyzer, distillmos, DNSMOS."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from rhapsode.bench.quality.sound import at_16khz
from rhapsode.types import Clip


class Judge(Protocol):
    name: str
    metric: str

    def score(self, clip: Clip, reference: Clip | None) -> float | None:
        """Returns None if there is nothing to compare with."""


class Resemblyzer:
    """Cosine similarity of speaker embeddings: to the reference, or else to the first clip of this run."""

    name, metric = "resemblyzer", "similarity"

    def __init__(self) -> None:
        self._package = import_module("resemblyzer")
        self._encoder = self._package.VoiceEncoder("cpu", verbose=False)
        self._first: Any = None

    def score(self, clip: Clip, reference: Clip | None) -> float | None:
        embedding = self._embed(clip)
        if reference is not None:
            return float(np.dot(embedding, self._embed(reference)))
        if self._first is None:
            self._first = embedding
            return None
        return float(np.dot(embedding, self._first))

    def _embed(self, clip: Clip) -> Any:
        return self._encoder.embed_utterance(self._package.preprocess_wav(at_16khz(clip), 16_000))


class DistillMos:
    name, metric = "distillmos", "mos"

    def __init__(self) -> None:
        if importlib.util.find_spec("torchaudio") is None:  # it would only resample, and our clips have 16 kHz already
            sys.modules.setdefault("torchaudio", ModuleType("torchaudio"))
        self._model = import_module("distillmos").ConvTransformerSQAModel().eval()

    def score(self, clip: Clip, reference: Clip | None) -> float:
        import torch

        with torch.inference_mode():
            return float(self._model(torch.from_numpy(at_16khz(clip))[None])[0])


class DnsMos:
    name, metric = "dnsmos", "dnsmos"

    def __init__(self) -> None:
        self._run = import_module("speechmos.dnsmos").run

    def score(self, clip: Clip, reference: Clip | None) -> float:
        return float(self._run(np.clip(at_16khz(clip), -1, 1), sr=16_000)["ovrl_mos"])


KNOWN: dict[str, Callable[[], Judge]] = {"resemblyzer": Resemblyzer, "distillmos": DistillMos, "speechmos": DnsMos}


def judges() -> tuple[list[Judge], list[str]]:
    """Returns the judges that are installed, and a note on each one that is installed but does not start."""
    found: list[Judge] = []
    notes: list[str] = []
    for module, make in KNOWN.items():
        if importlib.util.find_spec(module) is None:
            continue
        try:
            with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # standard output is for the table
                warnings.simplefilter("ignore")
                found.append(make())
        except Exception as error:  # a broken judge must not stop the others
            notes.append(f"{module} is installed but does not start: {type(error).__name__}: {error}")
    return found, notes
