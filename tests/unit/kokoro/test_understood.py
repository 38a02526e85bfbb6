"""Prompts of the quality benchmark in four voices, with the published weights, as a recogniser understands them."""

import numpy as np
import pytest

from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.bench.quality.recogniser import make_recogniser
from rhapsode.bench.quality.words import corpus
from rhapsode.config import resolve
from rhapsode.engine import Engine, Source
from rhapsode.models.kokoro.folder import installed
from rhapsode.models.kokoro.spec import SPEC
from rhapsode.models.registry import find
from rhapsode.types import Clip, SpeechRequest, Voice

VOICES = ("af_heart", "am_michael", "bf_emma", "bm_george")
EVERY = 12
"""Of 200 prompts."""
MOST_WRONG = 0.3
"""Words, as a small recogniser hears them, which is wrong more often than a listener."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed() is None, reason=f"not installed: {SPEC.install}"),
]


def test_prompts_are_understood_in_four_voices() -> None:
    pytest.importorskip("pocketsphinx")
    found, recogniser = find("kokoro"), make_recogniser("pocketsphinx")
    assert recogniser is not None
    deployment = resolve(env={}, flags={"model": "kokoro", "device": "cpu", "threads": 2})
    prompts = read_prompts()[::EVERY]
    with Engine(found.spec, deployment, Source(found.checkpoint, found.config)) as engine:
        speeches = [
            engine.submit(SpeechRequest(prompt.text, voice=Voice(name=VOICES[i % len(VOICES)]), seed=i))
            for i, prompt in enumerate(prompts)
        ]
        clips = [
            Clip(np.concatenate([chunk.samples for chunk in speech], axis=1), SPEC.sample_rate) for speech in speeches
        ]
    pairs = [(prompt.text, recogniser.transcribe(clip, "en")) for prompt, clip in zip(prompts, clips, strict=True)]
    for i, voice in enumerate(VOICES):
        print(f"{voice}: {corpus(pairs[i :: len(VOICES)]).wer:.1%} of words wrong")
    print(f"all: {corpus(pairs).wer:.1%}")
    assert corpus(pairs).wer < MOST_WRONG, pairs
