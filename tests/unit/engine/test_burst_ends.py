"""A burst whose prompts end before their last frame: how many frames are heard is found on the device."""

from dataclasses import replace

import pytest
import torch

from rhapsode.errors import GenerationFailed
from rhapsode.models.base import StageSpec, Traits
from rhapsode.testing.subject import assert_all_free, outcome_of, speak
from rhapsode.types import SpeechRequest
from unit.engine.test_bursts import PREPARE, VOCODE, WRITTEN, Written, engine_of, read


class EndsAtComma(Written):
    """What follows a comma is not heard, nor is anything of a text that ends with `!`."""

    def traits(self):
        return Traits(heard=self.heard)

    def heard(self, prompts, frames):
        return torch.tensor([len(prompt.text.split(",")[0]) * (prompt.text[-1] != "!") for prompt in prompts])


SPEC = replace(
    WRITTEN,
    pipeline=(
        PREPARE,
        StageSpec("talk", "burst", f"{__name__}:EndsAtComma", stream_to=("vocode",), takes_text=True),
        VOCODE,
    ),
)


def test_frames_after_the_end_are_not_heard() -> None:
    with engine_of(SPEC) as engine:
        speech = engine.submit(SpeechRequest("One, two. Three four. Five! Six, seven."))
        samples = torch.cat([torch.from_numpy(chunk.samples) for chunk in iter(speech.get, None)], dim=1)
        assert read(samples.numpy()) == "OneThree four.Six"
        assert outcome_of(speech).frames == len("OneThree four.Six")
        assert_all_free(engine)


def test_what_is_not_finite_is_told_even_if_it_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_of(SPEC) as engine:
        assert read(speak(engine, SpeechRequest("Yes, no."))) == "Yes"
        broken = torch.tensor([0.5, 0.5, 0.5, float("nan")])
        monkeypatch.setattr(EndsAtComma, "burst", lambda self, prompts, *rest: [broken for _ in prompts])
        with pytest.raises(GenerationFailed, match="not finite"):
            speak(engine, SpeechRequest("Yes, no."))
