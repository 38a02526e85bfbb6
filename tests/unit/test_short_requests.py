"""Which requests are so short that they are tokenised where they arrive."""

import numpy as np
import pytest

from rhapsode.models.base import Part, is_short
from rhapsode.models.workers import SHORT_CHARS
from rhapsode.types import Clip, Reference, SpeechRequest, Voice

RECORDING = Reference(Clip(np.zeros(16, np.float32), 16_000), "Hello.")
LONG = "x" * (SHORT_CHARS + 1)


def test_a_sentence_is_short() -> None:
    assert is_short(SpeechRequest("Hello there.", Voice(name="one"), instructions="Whisper."))


@pytest.mark.parametrize(
    "payload",
    [
        SpeechRequest(LONG),
        SpeechRequest("Hello.", instructions=LONG),
        SpeechRequest("Hello.", Voice(description=LONG)),
        SpeechRequest("Hello.", Voice(references=(RECORDING,))),
        SpeechRequest("Hello.", Voice(continued=RECORDING)),
        Part(SpeechRequest("Hello."), ("Hello.",)),
    ],
    ids=["text", "instructions", "description", "reference", "continued", "a later part"],
)
def test_what_takes_longer_is_not(payload: object) -> None:
    assert not is_short(payload)
