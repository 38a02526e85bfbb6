"""A useful part of SSML is read, whole or in pieces, and nothing else is."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.errors import InvalidRequest
from rhapsode.text.events import Bookmark, Pause, RateChange, TextEvent
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.lexicon import Lexicon
from rhapsode.text.spoken import SpokenRun

DOCUMENTS = [
    "<speak>Hello <break time='500ms'/> world &amp; all, it's 12.50 &#x41;.</speak>",
    '<?xml version="1.0"?><speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="en-US">'
    '<p><s>One</s><s>Two!</s></p>\r\n<p>Three <mark name="here"/>four é 你好</p></speak>',
    '<speak>A <sub alias="World Wide Web Consortium">W3C</sub> page, <say-as interpret-as="characters">ab1</say-as>'
    ' on <say-as interpret-as="date" format="dmy">3/4/2024</say-as>.</speak>',
    '<speak>Now <prosody rate="slow">slowly <prosody rate="150%">or not</prosody> slow</prosody> end 7</speak>',
    '<speak><!-- a comment --><break strength="strong"/>nginx costs $5</speak>',
]
SETTINGS = TextSettings("ssml", "en", normalise=True, lexicon=Lexicon({"nginx": "engine x"}))


def events(document: str, cuts: list[int] | None = None, settings: TextSettings = SETTINGS) -> list[TextEvent]:
    front_end = FrontEnd(settings)
    edges = [0, *sorted(cut % (len(document) + 1) for cut in cuts or ()), len(document)]
    found = [event for a, b in pairwise(edges) for event in front_end.push(document[a:b])]
    return [*found, *front_end.close()]


def said(found: list[TextEvent]) -> str:
    return "".join(event.text for event in found if isinstance(event, SpokenRun))


def characters(found: list[TextEvent]) -> list[TextEvent]:
    return [
        part
        for event in found
        for part in (
            [event.part(i, i + 1) for i in range(len(event.text))] if isinstance(event, SpokenRun) else [event]
        )
    ]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        *zip(
            DOCUMENTS,
            [
                "Hello  world and all, it's twelve point five zero A.",
                "One. Two! \nThree four é 你好. ",
                "A World Wide Web Consortium page, a b one on April third, twenty twenty-four.",
                "Now slowly or not slow end seven",
                "engine x costs five dollars",
            ],
            strict=True,
        )
    ],
)
def test_the_text_of_a_document_is_what_it_says(document: str, text: str) -> None:
    assert said(events(document)) == text


@pytest.mark.parametrize("document", DOCUMENTS)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_a_document_in_pieces_says_the_same(document: str, cuts: list[int]) -> None:
    assert characters(events(document, cuts)) == characters(events(document))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_character_maps_to_the_document(document: str) -> None:
    position = 0
    for event in events(document):
        if isinstance(event, SpokenRun):
            assert position <= event.start <= event.stop <= len(document)
            assert not event.copied or document[event.start : event.stop] == event.text
            position = event.stop


def test_references_and_replaced_words_map_to_what_is_written() -> None:
    document = DOCUMENTS[0]
    [ampersand] = [event for event in events(document) if isinstance(event, SpokenRun) and event.text == "and"]
    assert document[ampersand.start : ampersand.stop] == "&amp;"
    document = DOCUMENTS[2]
    sub = next(event for event in events(document) if isinstance(event, SpokenRun) and event.fixed)
    assert document[sub.start : sub.stop] == '<sub alias="World Wide Web Consortium">W3C</sub>'


def test_pauses_rates_and_marks_stand_where_they_are_written() -> None:
    others = [[event for event in events(document) if not isinstance(event, SpokenRun)] for document in DOCUMENTS]
    assert others[0] == [Pause(0.5)]
    assert others[1] == [Bookmark("here", DOCUMENTS[1].index("<mark"))]
    assert others[3] == [RateChange(0.75), RateChange(pytest.approx(1.125)), RateChange(0.75), RateChange(1.0)]
    assert others[4] == [Pause(0.75)]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("Hello", "well formed"),
        ("<p>Hello</p>", "begins with <speak>"),
        ("<speak>Hello", "well formed"),
        ("<speak>a</speak>b", "well formed"),
        ("<speak><audio src='x'/></speak>", "<audio> is not supported"),
        ("<speak><voice name='x'>a</voice></speak>", "<voice> is not supported"),
        ("<speak><prosody pitch='high'>a</prosody></speak>", "no attribute 'pitch'"),
        ("<speak><prosody rate='9'>a</prosody></speak>", "rate"),
        ("<speak><prosody rate='fast-ish'>a</prosody></speak>", "rate"),
        ("<speak><break time='1h'/></speak>", "500ms"),
        ("<speak><break time='21s'/></speak>", "at most 20 s"),
        ("<speak><break strength='huge'/></speak>", "strength"),
        ("<speak><break>a</break></speak>", "holds no text"),
        ("<speak><say-as interpret-as='song'>a</say-as></speak>", "interpret-as"),
        ("<speak><say-as interpret-as='ordinal'>x</say-as></speak>", "no whole number"),
        ("<speak><sub alias='x'><break/></sub></speak>", "holds no other elements"),
        ("<speak><sub>x</sub></speak>", "needs an alias"),
        ("<speak><mark/></speak>", "needs a name"),
        ("<speak><speak>a</speak></speak>", "stands once"),
        ("<speak>" + "<p>" * 20 + "a" + "</p>" * 20 + "</speak>", "nested"),
        ("<!DOCTYPE speak [<!ENTITY a 'b'>]><speak>&a;</speak>", "DOCTYPE"),
        ("<!DOCTYPE speak SYSTEM 'file:///etc/passwd'><speak>a</speak>", "DOCTYPE"),
        ("<speak>&unknown;</speak>", "entity"),
        ("<speak><![CDATA[a]]></speak>", "CDATA"),
        ("<speak><?php x?>a</speak>", "processing instructions"),
    ],
)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=4))
def test_anything_else_is_a_clear_error(document: str, message: str, cuts: list[int]) -> None:
    with pytest.raises(InvalidRequest, match=message) as error:
        events(document, cuts)
    assert error.value.param == "input"


def test_plain_text_with_a_bracket_stays_plain_text() -> None:
    plain = TextSettings("text", "en", normalise=True)
    assert said(events("a <b> & c <break time='1s'/>", settings=plain)) == "a <b> and c <break time='1s'/>"


@pytest.mark.parametrize("text", ["12 Katzen", "12只猫", "12匹の猫", "12 котов", "12마리"])
def test_without_a_language_the_first_letter_decides(text: str) -> None:
    spoken = said(events(text, [1, 2], TextSettings("text", None, normalise=True)))
    assert spoken in ("twelve Katzen", "十二只猫", "十二匹の猫", "двенадцать котов", "열두 마리")


def test_what_asks_for_nothing_is_passed_on_at_once() -> None:
    front_end = FrontEnd(TextSettings())
    assert front_end.push("costs $12") == [SpokenRun("costs $12", 0, 9, copied=True)]
