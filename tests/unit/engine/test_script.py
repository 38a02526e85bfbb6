"""What a request says is cut into sections where it pauses, whole or as it arrives."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.checking.dialogue import MOST_PAUSE_S
from rhapsode.checking.reading import settings_of
from rhapsode.engine.script import SpeechScript, SpokenSection
from rhapsode.errors import InvalidRequest, TextTooLong
from rhapsode.models.base import Following
from rhapsode.models.registry import find
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.lexicon import Lexicon
from rhapsode.types import ModelInfo, SpeechRequest

SSML = TextSettings("ssml", "en", normalise=True)
DOCUMENT = (
    "<speak><break time='1s'/>One 1.<break time='500ms'/><break time='250ms'/>... <prosody rate='fast'>Two"
    "</prosody> three<break time='2s'/></speak>"
)


def whole(document: str) -> SpeechScript:
    return SpeechScript(SpeechRequest(document, input_type="ssml"), SSML)


def shape(sections: tuple[SpokenSection, ...]) -> list[tuple[str, float, float]]:
    return [(section.text.strip(), section.pause_s, section.pace) for section in sections]


def test_a_document_has_sections_with_pauses_and_paces() -> None:
    script = whole(DOCUMENT)
    assert shape(script.sections) == [("One one.", 1.0, 1.0), ("Two", 0.75, 1.25), ("three", 0.0, 1.0)]
    assert script.tail_s == 2.0


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_a_document_in_pieces_has_the_same_sections(cuts: list[int]) -> None:
    edges = [0, *sorted(cut % (len(DOCUMENT) + 1) for cut in cuts), len(DOCUMENT)]
    script = SpeechScript(SpeechRequest("", text_open=True, input_type="ssml"), SSML)
    for start, stop in pairwise(edges):
        script.append(DOCUMENT[start:stop], final=False)
    script.append("", final=True)
    assert shape(script.sections) == shape(whole(DOCUMENT).sections)
    assert script.tail_s == whole(DOCUMENT).tail_s
    assert script.spoken().text == whole(DOCUMENT).spoken().text


def test_sections_are_given_out_one_by_one() -> None:
    script = whole(DOCUMENT)
    texts = [script.first().text, script.next().text, script.next().text]
    assert [text.strip() for text in texts] == ["One one.", "Two", "three"]
    assert script.first() is None
    assert script.next() is None


def test_text_that_arrives_goes_to_the_section_that_is_spoken() -> None:
    script = SpeechScript(SpeechRequest("", text_open=True, input_type="ssml"), SSML)
    assert script.first() is None
    assert script.append("<speak>Good", final=False).more
    script.append(" morning ", final=False)
    assert script.first().text == "Good morning "
    assert script.append("to ", final=False).text == "to "
    ended = script.append("all<break time='1s'/>And ", final=False)
    assert (ended.text, ended.final, ended.more) == ("all", True, True)
    assert script.next().text == "And "
    assert script.append("you</speak>", final=False).text == ""  # it may go on
    assert script.next() is Following.NOT_YET
    assert script.append("", final=True) == ("you", True, False)
    assert script.next() is None


def test_plain_text_is_one_section_as_it_is_written() -> None:
    script = SpeechScript(SpeechRequest("  <a> 12... "))
    assert script.first().text == "  <a> 12... "
    assert script.next() is None


def test_a_document_without_words_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="nothing to say"):
        whole("<speak><break time='1s'/> ... </speak>")
    script = SpeechScript(SpeechRequest("", text_open=True, input_type="ssml"), SSML)
    script.append("<speak>...</speak>", final=True)
    assert script.is_empty


def test_pauses_and_respellings_are_bounded() -> None:
    with pytest.raises(InvalidRequest, match=f"{MOST_PAUSE_S:g} s"):
        whole("<speak>a" + "<break time='20s'/>" * 4 + "b</speak>")
    with pytest.raises(TextTooLong):
        SpeechScript(SpeechRequest("a " * 100), TextSettings(lexicon=Lexicon({"a": "b" * 300})), most_chars=1000)


INFO = ModelInfo("test", "", 24_000, normalise=True)


def test_a_request_decides_and_the_model_has_the_default() -> None:
    lexicon = Lexicon({"a": "b"})
    assert settings_of(SpeechRequest("x"), INFO, lexicon) == TextSettings("text", None, True, lexicon)
    assert not settings_of(SpeechRequest("x", normalise=False), INFO, lexicon).normalise
    assert settings_of(SpeechRequest("x", language="de"), INFO, lexicon).language == "de"
    assert settings_of(SpeechRequest("x", lexicon={"c": "d"}), INFO, lexicon).lexicon.entries == {"a": "b", "c": "d"}
    with pytest.raises(InvalidRequest, match="normalise"):
        settings_of(SpeechRequest("x", language="nl", normalise=True), INFO, lexicon)
    assert SpeechScript(
        SpeechRequest("12 apen"), settings_of(SpeechRequest("x", language="nl"), INFO, lexicon)
    ).spoken()


@pytest.mark.parametrize(("model", "wants"), [("rhapsode-nano", True), ("hibari", True), ("dummy", False)])
def test_small_voices_want_words_and_others_the_text_as_it_is(model: str, wants: bool) -> None:
    info = find(model).info()
    assert info.normalise is wants
    settings = replace(settings_of(SpeechRequest("It is 12."), info, Lexicon()), phonemes=False)
    said = SpeechScript(SpeechRequest("It is 12."), settings).spoken().text
    assert said == ("It is twelve." if wants else "It is 12.")


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_text_that_arrives_is_told_as_the_phonemes_of_the_whole(cuts: list[int]) -> None:
    text = "The hour to read is 9:15, and I used to live in the US."
    settings = TextSettings("text", "en", normalise=True, phonemes=True)
    whole = SpeechScript(SpeechRequest(text), settings)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    script = SpeechScript(SpeechRequest("", text_open=True), settings)
    told = script.first().text
    for start, stop in pairwise(edges):
        told += script.append(text[start:stop], final=False).text
    told += script.append("", final=True).text
    assert told == whole.first().text
    assert list(script.spoken().words()) == list(whole.spoken().words())
    assert told.startswith("ði ˈ".replace("i", "ѩ"))


def test_a_text_that_no_slot_can_speak_is_not_read_to_its_end(monkeypatch) -> None:
    read: list[int] = []
    push = FrontEnd.push
    monkeypatch.setattr(FrontEnd, "push", lambda end, text: read.append(len(text)) or push(end, text))
    with pytest.raises(TextTooLong, match="1600 characters without a pause"):
        SpeechScript(SpeechRequest("a. " * 6000), TextSettings("html", "en", normalise=True), most_positions=100)
    assert sum(read) < 4000
    with_pauses = "<speak>" + '<s>one two three</s><break time="10ms"/>' * 200 + "</speak>"
    assert SpeechScript(SpeechRequest(with_pauses, input_type="ssml"), SSML, most_positions=100).sections
