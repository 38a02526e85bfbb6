"""Speaks with `hibari-tts`, sentence by sentence, with the noise of the request's seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from adapter import Speak, UpstreamJob, UpstreamSpeech, run

RATE = 24_000


def open_model(job: UpstreamJob) -> Speak:
    from hibari import Hibari

    models: dict[str, Any] = {}

    def speak(item: Mapping[str, Any]) -> UpstreamSpeech:
        model = models.get(item["voice"]) or models.setdefault(item["voice"], Hibari(item["voice"]))
        noise = np.random.default_rng(item["seed"])
        pieces = [model.from_ids(model.ids(phonemes), rng=noise) for phonemes in model.phonemize(item["text"])]
        return UpstreamSpeech(np.concatenate(pieces), RATE)

    return speak


run(open_model, "hibari-tts")
