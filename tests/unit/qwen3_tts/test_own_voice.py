"""The packaged voice says what upstream says with it: the stored codes, greedily, in both layouts of text, with presets
and with a clone. What upstream was given is what the text front end writes."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from packaged import FOLDER
from rhapsode.checking.reading import settings_of
from rhapsode.checking.request import checked
from rhapsode.config import Limits
from rhapsode.engine import SpeechScript
from rhapsode.models.qwen3_tts.spec import SPEC
from rhapsode.text.lexicon import Lexicon
from rhapsode.types import Clip, SpeechRequest, Voice
from tiny.qwen3_tts import SAMPLE_RATE, reference_audio
from unit.qwen3_tts.asked import Family, Stage

GOLDEN = Path(__file__).parents[2] / "golden" / "own_voice.json"
KNOWN: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8"))
REFERENCE = Voice.cloned(Clip(reference_audio(KNOWN["reference"]["samples"])[None], SAMPLE_RATE))
CASES = [pytest.param(case, id=f"{case['speaker']}-{case['text']}") for case in KNOWN["cases"]]
EACH_THIRD = [
    pytest.param(*case.values, id=case.id, marks=[pytest.mark.slow] if number % 3 else [])
    for number, case in enumerate(CASES)
]
"""All of them, of which two thirds are slow: presets and clones, with the text in the prompt and beside it."""


@pytest.fixture(scope="module")
def voice() -> Family:
    return Family.open(FOLDER)


def asked(case: dict[str, Any], text: str) -> SpeechRequest:
    options = {"non_streaming_mode": case["non_streaming"], "subtalker_temperature": 0}
    speaker = REFERENCE if case["speaker"] is None else Voice(name=case["speaker"])
    return SpeechRequest(text, speaker, language=case["language"], options=options)


def test_the_goldens_were_made_with_this_voice() -> None:
    assert hashlib.sha256((FOLDER / "model.safetensors").read_bytes()).hexdigest() == KNOWN["sha256"]


@pytest.mark.parametrize("case", CASES)
def test_the_front_end_writes_what_upstream_was_given(voice: Family, case: dict[str, Any]) -> None:
    request = checked(asked(case, case["text"]), SPEC, voice.info, Limits())
    first = SpeechScript(request, settings_of(request, voice.info, Lexicon())).first()
    assert first is not None
    assert first.text == case["spoken"]


@pytest.mark.parametrize("case", EACH_THIRD)
def test_greedy_codes_are_upstreams(voice: Family, case: dict[str, Any]) -> None:
    with torch.inference_mode():
        stage = Stage(voice.talker, slots=1, positions=512)
        stage.join([0], [voice.prompt(asked(case, case["spoken"]))])
        (codes,) = stage.speak([0], len(case["codes"]) + 1)
    assert np.array_equal(codes, case["codes"])


def test_the_speaker_vector_of_a_reference_is_upstreams(voice: Family) -> None:
    made = voice.prompt(SpeechRequest("Hello.", REFERENCE)).speaker
    np.testing.assert_allclose(made, np.ravel(KNOWN["reference"]["vector"]), atol=1e-4)
