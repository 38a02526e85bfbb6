"""The modes of a checkpoint, its number formats, and what is asked for each prompt."""

from dataclasses import replace

import numpy as np
import pytest

from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.errors import InvalidRequest
from rhapsode.models.registry import families
from rhapsode.published.precision import precisions
from rhapsode.published.sample import silent_share
from rhapsode.published.voices import ModeVoices
from rhapsode.types import Capabilities, Clip, ModelInfo, Reference

SPEC = families()[0]["voxcpm2"]
CLIP = Clip(np.zeros((1, 100), np.float32), 24_000)
FIRST, SECOND = Reference(CLIP, "one"), Reference(CLIP, "two")
PROMPT = SpokenPrompt("p", "Hello there.")


def voices(**known):
    info = ModelInfo("voxcpm2", "", 24_000, **{"default_voice": False, **known})
    return ModeVoices(SPEC, info, FIRST, SECOND)


def test_a_checkpoint_that_clones_talks_to_itself_in_two_voices():
    found = voices(can=Capabilities(clone=True))
    assert found.modes() == ("clone", "dialogue")
    request = found.request("dialogue", PROMPT, ["Hello there.", "Who is it?"], seed=3)
    assert [segment.text for segment in request.segments] == ["Hello there.", "Who is it?"]
    assert [segment.voice.references for segment in request.segments] == [(FIRST,), (SECOND,)]
    assert found.request("clone", PROMPT, [], seed=3).voice.references == (FIRST,)


def test_presets_and_descriptions_are_modes():
    found = voices(voices=("anna", "ben"), can=Capabilities(presets=True, design=True))
    assert found.modes() == ("presets", "design", "dialogue")
    assert found.request("presets", PROMPT, [], seed=1).voice.name == "anna"
    assert found.request("design", PROMPT, [], seed=1).voice.description
    names = [s.voice.name for s in found.request("dialogue", PROMPT, ["a", "b"], seed=1).segments]
    assert names == ["anna", "ben"]


def test_one_voice_has_no_dialogue():
    assert voices(voices=("anna",)).modes() == ("presets",)
    both = voices(voices=("anna", "ben"))
    assert replace(both, spec=replace(SPEC, one_voice=True)).modes() == ("presets",)


def test_a_mode_that_is_not_there_is_refused():
    with pytest.raises(InvalidRequest, match="auto or some of presets"):
        voices(voices=("anna",)).chosen("presets,design")


def test_number_formats_are_those_of_the_device():
    assert [one.name for one in precisions("auto", "cpu", SPEC)] == ["float32", "int8"]
    assert [one.name for one in precisions("auto", "cuda", SPEC)] == ["bfloat16", "float32", "fp8"]
    assert [one.name for one in precisions("auto", "cpu", families()[0]["hibari"])] == ["float32"]
    assert precisions("int8", "cpu", SPEC)[0].flags() == {"dtype": "float32", "weights": "int8"}


def test_silence_is_what_is_far_below_the_loudest_piece():
    loud = np.sin(np.arange(24_000) * 0.1).astype(np.float32)
    clip = Clip(np.concatenate([loud, loud * 1e-3])[None], 24_000)
    assert silent_share(clip) == pytest.approx(0.5, abs=0.02)
