"""What is wrong with a request is said before anything works on it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rhapsode.checking.request import checked
from rhapsode.config import Limits
from rhapsode.errors import InvalidRequest, TextTooLong, UnknownOption, UnknownVoice
from rhapsode.models.base import ModelSpec
from rhapsode.models.dummy.spec import SPEC as DUMMY
from rhapsode.models.dummy.spec import DummyOptions
from rhapsode.types import Capabilities, Clip, Reference, Sampling, SpeechRequest, Voice

LIMITS = Limits(max_text_chars=20)
NAN, INFINITY = float("nan"), float("inf")
CLIP = Clip(np.zeros((1, 10), np.float32), 16_000)


def check(request: SpeechRequest, spec: ModelSpec = DUMMY) -> SpeechRequest:
    return checked(request, spec, spec.info(), LIMITS)


def complaint(request: SpeechRequest, spec: ModelSpec = DUMMY) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        check(request, spec)
    assert "\n" not in caught.value.message
    assert caught.value.message.endswith((".", "?"))
    return caught.value


def test_a_plain_request_is_fine() -> None:
    assert check(SpeechRequest("Hello.")) == SpeechRequest("Hello.", options=DummyOptions())


@pytest.mark.parametrize("text", ["", " ", "\n\t \u00a0\u3000", "\u2003"])
def test_text_without_a_word_is_refused(text: str) -> None:
    error = complaint(SpeechRequest(text))
    assert "empty" in error.message
    assert error.param == "input"


@pytest.mark.parametrize("text", ["🎉", "?!", "...", "\u200b\u200d", "❤\ufe0f"])
def test_text_without_a_letter_or_digit_is_refused(text: str) -> None:
    error = complaint(SpeechRequest(text))
    assert error.param == "input"
    assert "no letter and no digit" in error.message


def test_open_text_may_begin_empty() -> None:
    assert check(SpeechRequest("", text_open=True)).text == ""


def test_open_text_is_refused_by_a_family_that_needs_it_whole() -> None:
    deaf = replace(DUMMY, can=Capabilities(presets=True))
    assert "whole text" in complaint(SpeechRequest("Hello.", text_open=True), deaf).message


def test_text_up_to_the_limit_is_fine_and_one_character_more_is_not() -> None:
    assert len(check(SpeechRequest("a" * 20)).text) == 20
    error = complaint(SpeechRequest("a" * 21))
    assert isinstance(error, TextTooLong)
    assert "21" in error.message
    assert "20" in error.message


@pytest.mark.parametrize("text_open", [False, True])
def test_too_long_is_too_long_also_where_more_may_come(text_open: bool) -> None:
    assert isinstance(complaint(SpeechRequest("a" * 21, text_open=text_open)), TextTooLong)


@pytest.mark.parametrize("speed", [0.25, 1, 4.0])
def test_a_speed_in_range_is_fine(speed: float) -> None:
    assert check(SpeechRequest("Hello.", speed=speed)).speed == speed


@pytest.mark.parametrize("speed", [0.0, -1.0, 0.2499, 4.0001, NAN, INFINITY, -INFINITY])
def test_a_speed_out_of_range_is_refused_with_the_range(speed: float) -> None:
    error = complaint(SpeechRequest("Hello.", speed=speed))
    assert error.param == "speed"
    assert "0.25" in error.message
    assert "4" in error.message


@pytest.mark.parametrize("seed", [None, 0, 1, 2**63 - 1])
def test_a_seed_of_up_to_63_bits_is_fine(seed: int | None) -> None:
    assert check(SpeechRequest("Hello.", seed=seed)).seed == seed


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64])
def test_another_seed_is_refused(seed: int) -> None:
    assert complaint(SpeechRequest("Hello.", seed=seed)).param == "seed"


@pytest.mark.parametrize("name", ["max_frames", "first_chunk_frames"])
def test_a_number_of_frames_is_at_least_one(name: str) -> None:
    check(SpeechRequest("Hello.", **{name: 1}))
    assert complaint(SpeechRequest("Hello.", **{name: 0})).param == name


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1.0, min_p=0.0),
        Sampling(temperature=10.0, top_k=50, top_p=0.1, repetition_penalty=0.5, min_p=1.0),
    ],
)
def test_sampling_in_range_is_fine(sampling: Sampling) -> None:
    assert check(SpeechRequest("Hello.", sampling=sampling)).sampling == sampling


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 10.1),
        ("temperature", NAN),
        ("temperature", INFINITY),
        ("top_k", -1),
        ("top_k", 2**31),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("top_p", NAN),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 11.0),
        ("repetition_penalty", NAN),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("min_p", NAN),
    ],
)
def test_sampling_out_of_range_is_refused_by_name(name: str, value: float) -> None:
    error = complaint(SpeechRequest("Hello.", sampling=Sampling(**{name: value})))
    assert error.param == name
    assert name in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", 5),
        ("text", None),
        ("speed", "fast"),
        ("speed", None),
        ("seed", "abc"),
        ("seed", 1.5),
        ("max_frames", "many"),
        ("max_frames", 2.5),
        ("first_chunk_frames", "few"),
        ("language", 5),
        ("instructions", ["softly"]),
    ],
)
def test_a_field_of_another_type_is_refused(name: str, value: Any) -> None:
    complaint(SpeechRequest(**{"text": "Hello.", name: value}))


@pytest.mark.parametrize(("name", "value"), [("temperature", "hot"), ("top_k", 1.5), ("top_p", "most")])
def test_a_sampling_parameter_of_another_type_is_refused(name: str, value: Any) -> None:
    assert complaint(SpeechRequest("Hello.", sampling=Sampling(**{name: value}))).param == name


@pytest.mark.parametrize(
    ("ability", "what", "voice"),
    [
        ("clone", "clone voices", Voice.cloned(CLIP)),
        ("continuation", "continue recordings", Voice(continued=Reference(CLIP, "words"))),
        ("embedding", "take a speaker embedding", Voice(embedding=(0.1, 0.2))),
        ("design", "design a voice", Voice(description="an old man")),
    ],
)
def test_a_voice_needs_a_family_that_can_do_it(ability: str, what: str, voice: Voice) -> None:
    error = complaint(SpeechRequest("Hello.", voice))
    assert error.param == ("speaker_embedding" if ability == "embedding" else "voice")
    assert f"cannot {what}" in error.message
    assert "presets" in error.message
    able = replace(DUMMY, can=Capabilities(**{ability: True}))
    assert check(SpeechRequest("Hello.", voice), able).voice == voice


def test_a_family_that_can_do_nothing_says_so() -> None:
    plain = replace(DUMMY, can=Capabilities(), voices=())
    assert "nothing of the kind" in complaint(SpeechRequest("Hello.", Voice.cloned(CLIP)), plain).message


def test_a_preset_voice_is_refused_by_a_family_without_any() -> None:
    plain = replace(DUMMY, can=Capabilities(clone=True), voices=())
    assert complaint(SpeechRequest("Hello.", Voice(name="low")), plain).param == "voice"


def test_an_unknown_voice_is_answered_with_the_nearest_known_one() -> None:
    check(SpeechRequest("Hello.", Voice(name="high")))
    error = complaint(SpeechRequest("Hello.", Voice(name="hihg")))
    assert isinstance(error, UnknownVoice)
    assert "did you mean 'high'?" in error.message
    assert error.param == "voice"


def test_an_unknown_voice_like_no_other_is_answered_with_all_of_them() -> None:
    assert "known: high, low." in complaint(SpeechRequest("Hello.", Voice(name="zzz"))).message


def test_the_familys_options_are_checked_too() -> None:
    assert isinstance(complaint(SpeechRequest("Hello.", options={"endles": True})), UnknownOption)
    assert complaint(SpeechRequest("Hello.", options={"endless": "yes"})).param == "endless"


# --- what the checkpoint says ---


@pytest.mark.parametrize("name", ["high", "HIGH", "High"])
def test_a_preset_is_taken_in_any_case_and_handed_on_as_the_model_spells_it(name: str) -> None:
    assert check(SpeechRequest("Hello.", Voice(name=name))).voice.name == "high"


def test_a_preset_is_not_checked_where_their_names_are_unknown() -> None:
    assert check(SpeechRequest("Hello.", Voice(name="Zoe")), replace(DUMMY, voices=())).voice.name == "Zoe"


def test_abilities_are_those_of_the_checkpoint_not_of_its_family() -> None:
    info = replace(DUMMY.info(), variant="Mute", can=Capabilities())
    with pytest.raises(UnknownVoice, match="dummy Mute has no voices to choose by name"):
        checked(SpeechRequest("Hello.", Voice(name="high")), DUMMY, info, LIMITS)
    with pytest.raises(InvalidRequest, match="dummy Mute cannot take text while it speaks"):
        checked(SpeechRequest("Hello.", text_open=True), DUMMY, info, LIMITS)


SPEAKS = replace(DUMMY, languages=("en", "de", "klingon"))


@pytest.mark.parametrize(
    ("language", "code"),
    [(None, None), ("", None), ("auto", None), ("Auto", None), ("en", "en"), ("EN", "en"), ("English", "en"),
     ("german", "de"), (" de ", "de"), ("Klingon", "klingon")],
)  # fmt: skip
def test_a_language_is_taken_by_code_or_name_and_handed_on_as_a_code(language: str | None, code: str | None) -> None:
    assert check(SpeechRequest("Hello.", language=language), SPEAKS).language == code


@pytest.mark.parametrize("language", ["fr", "French", "germn", "de-DE"])
def test_another_language_is_refused_with_those_there_are(language: str) -> None:
    error = complaint(SpeechRequest("Hello.", language=language), SPEAKS)
    assert error.param == "language"
    assert "german" in error.message


@pytest.mark.parametrize(("language", "code"), [("French", "fr"), ("bn", "bn"), ("YUE", "yue"), ("auto", None)])
def test_a_family_that_names_no_languages_takes_every_one(language: str, code: str | None) -> None:
    assert check(SpeechRequest("Hello.", language=language)).language == code


@pytest.mark.parametrize("language", ["xx", "klingon", "en-US", "e", "\x00"])
def test_what_is_no_language_is_refused_by_every_family(language: str) -> None:
    error = complaint(SpeechRequest("Hello.", language=language))
    assert error.param == "language"
    assert "ISO 639-1" in error.message


def test_an_unknown_option_is_answered_with_options_that_have_an_effect_here() -> None:
    spec = replace(DUMMY, option_needs={"endless": "clone"})
    assert "none" in complaint(SpeechRequest("Hello.", options={"endles": True}), spec).message
    assert "did you mean 'endless'" in complaint(SpeechRequest("Hello.", options={"endles": True})).message


def test_an_option_of_another_family_is_answered_with_that_family() -> None:
    error = complaint(SpeechRequest("Hello.", options={"scene": "a kitchen"}))
    assert error.message == "dummy has no option 'scene': it is an option of higgs-v2."


def test_no_more_references_than_the_checkpoint_takes() -> None:
    three = Voice(references=(Reference(CLIP), Reference(CLIP, "words"), Reference(CLIP)))
    one, many = (replace(DUMMY, can=Capabilities(clone=True, references=n)) for n in (1, 3))
    assert check(SpeechRequest("Hello.", three), many).voice == three
    error = complaint(SpeechRequest("Hello.", three), one)
    assert (error.param, "takes one reference, not 3" in error.message) == ("references", True)
    assert complaint(SpeechRequest("Hello.", Voice(references=(CLIP,))), many).param == "references"


@pytest.mark.parametrize(
    ("voice", "param"),
    [
        (Voice.cloned(CLIP, " \n\u3000"), "ref_text"),
        (Voice(references=(Reference(CLIP, "a"), Reference(CLIP, ""))), "ref_text"),
        (Voice(continued=Reference(CLIP, "\t")), "prompt_text"),
    ],
)
def test_a_transcript_without_words_is_refused(voice: Voice, param: str) -> None:
    able = replace(DUMMY, can=Capabilities(clone=True, continuation=True, references=2))
    error = complaint(SpeechRequest("Hello.", voice), able)
    assert error.param == param
    assert "transcript is empty" in error.message


def test_a_transcript_is_handed_on_as_it_is() -> None:
    able = replace(DUMMY, can=Capabilities(clone=True))
    voice = Voice.cloned(CLIP, " two \r\nlines\n")
    assert check(SpeechRequest("Hello.", voice), able).voice == voice


def test_a_recording_to_continue_is_a_reference() -> None:
    able = replace(DUMMY, can=Capabilities(continuation=True))
    error = complaint(SpeechRequest("Hello.", Voice(continued=CLIP)), able)
    assert (error.param, "Reference" in error.message) == ("continued", True)


@pytest.mark.parametrize("embedding", [(0.1,), (0.1, 0.2, 0.3), (0.1, NAN), (INFINITY, 0.1), (1e39, 0.1)])
def test_an_embedding_that_does_not_fit_is_told_the_right_size(embedding: tuple[float, ...]) -> None:
    info = replace(DUMMY.info(), can=Capabilities(embedding=True), embedding_size=2)
    fits = SpeechRequest("Hello.", Voice(embedding=(0.1, -0.2)))
    assert checked(fits, DUMMY, info, LIMITS).voice == fits.voice
    with pytest.raises(InvalidRequest, match="has 2 finite numbers; ") as caught:
        checked(SpeechRequest("Hello.", Voice(embedding=embedding)), DUMMY, info, LIMITS)
    assert caught.value.param == "speaker_embedding"
    assert ("got " in caught.value.message) == (len(embedding) != 2)
