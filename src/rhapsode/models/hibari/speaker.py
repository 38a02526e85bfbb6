"""Speaks sentence by sentence through the wrapped package, joined without clicks or gaps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hibari import Hibari

from rhapsode.audio.join import Joiner
from rhapsode.models.base import StageContext
from rhapsode.models.hibari.prompt import HibariPrompt
from rhapsode.types import Samples


class Speaker:
    def __init__(self, context: StageContext) -> None:
        self._sample_rate = context.spec.sample_rate
        self._models: dict[str, Hibari] = {}
        self._model(context.spec.voices[0])("Warm up.")  # the first call reads the lexicon

    def speak(self, prompt: HibariPrompt, seed: int) -> Iterator[Samples | None]:
        model = self._model(prompt.voice)
        rng = np.random.default_rng(seed)
        joiner = Joiner(self._sample_rate, pause_s=prompt.pause_s)
        while True:
            sentence = prompt.sentences.pop()
            if sentence is not None:
                for phonemes in model.phonemize(sentence):
                    samples = model.from_ids(model.ids(phonemes), rng=rng)
                    yield joiner.add(samples[None])
            elif prompt.sentences.closed:
                return
            else:
                yield None

    def _model(self, voice: str) -> Hibari:
        if voice not in self._models:
            self._models[voice] = Hibari(voice)
        return self._models[voice]
