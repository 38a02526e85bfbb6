"""The packaged voice says what upstream says with it: the stored codes, greedily, in both layouts of text."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from packaged import FOLDER
from rhapsode.types import SpeechRequest, Voice
from unit.qwen3_tts.asked import Family, Stage

GOLDEN = Path(__file__).parents[2] / "golden" / "own_voice.json"
KNOWN: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8"))


@pytest.fixture(scope="module")
def voice() -> Family:
    return Family.open(FOLDER)


def test_the_goldens_were_made_with_this_voice() -> None:
    assert hashlib.sha256((FOLDER / "model.safetensors").read_bytes()).hexdigest() == KNOWN["sha256"]


@pytest.mark.parametrize("case", KNOWN["cases"], ids=lambda case: f"{case['language']}-{case['text']}")
def test_greedy_codes_are_upstreams(voice: Family, case: dict[str, Any]) -> None:
    options = {"non_streaming_mode": case["non_streaming"], "subtalker_temperature": 0}
    asked = SpeechRequest(case["text"], Voice(name=case["speaker"]), language=case["language"], options=options)
    with torch.inference_mode():
        stage = Stage(voice.talker, slots=1, positions=512)
        stage.join([0], [voice.prompt(asked)])
        (codes,) = stage.speak([0], len(case["codes"]) + 1)
    assert np.array_equal(codes, case["codes"])
