"""Mixes of voices: how they are written, which are refused, and who may ask for them."""

from dataclasses import replace

import pytest

from rhapsode.checking.request import checked
from rhapsode.config import Limits
from rhapsode.errors import InvalidRequest, UnknownVoice
from rhapsode.models.registry import families
from rhapsode.types import Capabilities, SpeechRequest, Voice
from rhapsode.voices.mix import is_mix, parse_mix, spell_mix

DUMMY = families()[0]["dummy"]


@pytest.mark.parametrize(
    ("mix", "parts"),
    [
        ("low(2)+high(1)", {"low": 2, "high": 1}),
        ("low, high", {"low": 1, "high": 1}),
        ("low+high(0.5)+low", {"low": 2, "high": 0.5}),
        ("low(3)", {"low": 3}),
    ],
)
def test_a_mix_is_read(mix: str, parts: dict[str, float]) -> None:
    assert is_mix(mix)
    assert parse_mix(mix) == parts
    assert parse_mix(spell_mix(parts)).keys() == parts.keys()


@pytest.mark.parametrize("mix", ["a++b", "a(", "a(-1)+b", "a(x)", "a(nan),b", "+", "+".join("abcdefghij"), "a\ud800+"])
def test_what_is_no_mix_says_how_to_write_one(mix: str) -> None:
    with pytest.raises(InvalidRequest, match=r"write 'one\(2\)\+other\(1\)'"):
        parse_mix(mix)


def asked(voice: str, **can: bool) -> SpeechRequest:
    info = replace(DUMMY.info(), can=Capabilities(presets=True, **can))
    return checked(SpeechRequest("Hi.", Voice(name=voice)), DUMMY, info, Limits())


def test_a_family_gets_a_mix_in_one_spelling() -> None:
    assert asked("LOW + high(2)", mixes=True).voice.name == "low(1)+high(2)"
    assert asked("low,LOW", mixes=True).voice.name == "low"


def test_a_mix_of_unknown_voices_is_refused() -> None:
    with pytest.raises(UnknownVoice, match="has no voice 'nobody'"):
        asked("low+nobody", mixes=True)


def test_a_family_that_mixes_nothing_refuses_mixes() -> None:
    with pytest.raises(UnknownVoice, match=r"has no voice 'low\+high'"):
        asked("low+high")
