"""Text that is made to be hard to read costs about as much as any other, and is spoken or refused."""

import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.alignment.text import LONGEST_WORD, WordText
from rhapsode.engine.script import SpeechScript
from rhapsode.errors import InvalidRequest
from rhapsode.serve.socket.utterance import Utterance
from rhapsode.text.front_end import MOST_UNDECIDED, QUICK_CHARS, FrontEnd, TextSettings
from rhapsode.text.lexicon import Lexicon
from rhapsode.text.normalise.language import LANGUAGES
from rhapsode.text.say_as import KINDS
from rhapsode.types import SpeechRequest

ENGLISH = TextSettings(language="en", normalise=True, phonemes=True)
MOST_QUICK_CALLS = 50_000  # of functions: about 20 ms, and half as many once the tables are in caches
LETTERS = "abcdefghijklmnopqrstuvwxyz"


QUICK = ("en", None)
"""Whose rules are tried in every run; the others in `make test-all`."""


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called: a measure of cost that a busy machine does not change."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def read(text: str, settings: TextSettings) -> str:
    front_end = FrontEnd(settings)
    events = [*front_end.push(text), *front_end.close()]
    return "".join(event.text for event in events)


def joined(sign: str, letters: str) -> str:
    """Words of different letters with a sign between any two."""
    chosen = random.Random(4)
    return " ".join(sign.join(chosen.choices(letters, k=30)) for _ in range(400))


HARD = {
    "hyphens": joined("-", LETTERS),
    "hyphens between capitals": joined("-", LETTERS.upper()),
    "underscores": joined("_", "abcé"),
    "full stops": joined(".", LETTERS),
    "apostrophes": joined("'", LETTERS),
    "slashes": joined("/", LETTERS),
    "digits and letters": joined("1", LETTERS),
    "signs": "the ( ( - ' " * 2_000,
    "handles": "@a " * 7_000,
    "prices": "$1 " * 7_000,
    "capitals": "I " * 10_000,
    "host names": "a." * 120 + "com " + "www." * 60 + "com ",
    "blanks": "Dr. " + " " * 20_000,
    "no letters": "1 " * 10_000,
    "invisible": "\u200b\u200f" * 10_000,
    "brackets": "([{<" * 5_000,
    "emoji": "😀😀😀 " * 5_000,
    "other digits": "²①३٣ " * 4_000,
}


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_what_an_event_loop_reads_costs_little(text: str) -> None:
    read("Warm 1 up.", ENGLISH)
    assert calls_of(partial(read, text[:QUICK_CHARS], ENGLISH)) < MOST_QUICK_CALLS


@pytest.mark.parametrize(
    "language", [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in LANGUAGES if one not in QUICK)]
)
def test_twice_the_text_costs_about_twice_as_much(language: str | None) -> None:
    settings = TextSettings(language=language, normalise=True, phonemes=language == "en")
    for name, text in HARD.items():
        pieces = [(text * 10)[:size] for size in (1_000, 2_000)]
        one, two = (calls_of(partial(read, piece, settings)) for piece in pieces)
        assert two < 3 * one + 3_000, name


@pytest.mark.parametrize("language", ["en", None])
@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_no_character_that_arrives_alone_costs_much(text: str, language: str | None) -> None:
    front_end = FrontEnd(TextSettings(language=language, normalise=True, phonemes=language == "en"))
    assert max(calls_of(partial(front_end.push, char)) for char in text[:800]) < 2 * MOST_QUICK_CALLS


def test_a_word_of_many_parts_is_looked_up_once_while_it_waits_for_the_next() -> None:
    front_end = FrontEnd(ENGLISH)
    front_end.push("-".join(LETTERS) + "-the ")
    assert max(calls_of(partial(front_end.push, char)) for char in "( ( ( ( ") < 5_000


def test_words_with_hyphens_are_still_found() -> None:
    words = "brother-in-laws merry-go-round, off-the-wall Brother-In-Law cat-o'-nine-tails mother-in-law's"
    assert not any(char in LETTERS for char in read(words, ENGLISH).lower())


# --- the language of a text without letters ---


def test_without_a_letter_near_its_start_a_text_is_english() -> None:
    settings = TextSettings(normalise=True)
    assert read("5 " * 100 + "Это 5", settings).endswith("Это пять")
    assert read("5 " * 200 + "Это 5", settings).startswith("five five")


@given(st.integers(0, 2 * MOST_UNDECIDED), st.lists(st.integers(0, 600), max_size=5))
def test_the_language_does_not_depend_on_how_the_text_is_cut(signs: int, cuts: list[int]) -> None:
    text, settings = "." * signs + " Это 5", TextSettings(normalise=True)
    front_end = FrontEnd(settings)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    events = [event for a, b in pairwise(edges) for event in front_end.push(text[a:b])]
    assert "".join(event.text for event in [*events, *front_end.close()]) == read(text, settings)


# --- text that arrives in the smallest pieces ---


@pytest.mark.parametrize("sign", [".", "😀", " ", "\u200b"])
def test_a_long_text_without_a_letter_is_not_searched_again_with_each_sign(sign: str) -> None:
    utterance = Utterance(0, by_sentence=False)
    script = SpeechScript(SpeechRequest("", input_type="ssml", text_open=True), TextSettings("ssml", "en"))
    script.append("<speak>", final=False)
    started_s = time.thread_time()
    for _ in range(20_000):
        utterance.append(sign)
        script.append(sign, final=False)
        assert script.first() is None
    assert time.thread_time() - started_s < 5.0  # searched from the start each time, it takes much longer
    utterance.append("a")
    assert utterance.pieces[0].text == sign * 20_000 + "a"
    script.append("a", final=False)
    assert script.first() is not None


@pytest.mark.parametrize("lexicon", [{}, {".": "dot"}, {"京": "jing"}])
@pytest.mark.parametrize("piece", [".", "京", "a-", "x", "a\u0301", "1,"])
def test_words_to_look_for_are_found_as_a_text_without_blanks_arrives(piece: str, lexicon: dict[str, str]) -> None:
    text = (piece * 6_000)[:6_000] + " end"
    words = WordText(TextSettings(language="en", lexicon=Lexicon(lexicon)), list(f"{LETTERS}'"), "en")
    steps = [partial(words.push, text[at : at + QUICK_CHARS]) for at in range(0, len(text), QUICK_CHARS)]
    assert max(map(calls_of, [*steps, words.close])) < 2 * MOST_QUICK_CALLS
    found, is_closed = words.take()
    assert is_closed
    assert found[-1].text == "end"
    assert all(word.stop_char - word.start_char <= LONGEST_WORD for word in found)


# --- large lexicons ---


def test_a_request_copies_nothing_of_the_lexicon_it_extends() -> None:
    large = Lexicon({f"word{number}": "x" for number in range(20_000)})
    tracemalloc.start()
    try:
        more = large.with_more({"word5": "y", "own": "z"})
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert (more.entries["word4"], more.entries["word5"], more.entries["own"]) == ("x", "y", "z")


def test_the_lexicon_of_a_conversation_is_read_once() -> None:
    base, entries = Lexicon({"a": "b"}), {"c": "d"}
    assert base.with_more(entries) is base.with_more(dict(entries))
    assert base.with_more(entries) is not Lexicon({"a": "b"}).with_more(entries)
    assert base.with_more({"c": "e"}).entries["c"] == "e"


# --- any text is spoken or refused ---

NUMBERS = [
    "1",
    "22",
    "2024",
    "007",
    "9" * 20,
    "1.000.000.000.000.000.000",
    "1,000,000,000,000,000,000",
    "²",
    "①",
    "٣",
    "३",
]
SIGNS = [*".,:;/-–+*%$€£¥₽º°'\"()#@&_=~²½ \n", " ", " ", "R$", "://", "\u200f", "\u0301", "\ud800", "😀"]
WORDS = ["km", "kg", "st", "th", "er", "й", "го", "руб", "р.", "EUR", "USD", "am", "p.m.", "Uhr", "h", "March", "März"]
WORDS += [
    "марта",
    "mai",
    "de",
    "года",
    "Dr.",
    "No.",
    "XIV",
    "Chapter",
    "www.",
    "a.com",
    "million",
    "年",
    "月",
    "시",
    "개",
]
WORDS += ["to", "the", "a", "used", "s'", "n't", "A", "-"]
TEXTS = st.lists(st.sampled_from([*NUMBERS, *NUMBERS, *SIGNS, *SIGNS, *WORDS]), max_size=14).map("".join)


@pytest.mark.parametrize("language", [*LANGUAGES, None])
@given(TEXTS)
def test_any_text_is_spoken(language: str | None, text: str) -> None:
    read(text, TextSettings(language=language, normalise=True, phonemes=language == "en"))


@pytest.mark.parametrize("language", LANGUAGES)
@given(TEXTS, st.sampled_from(KINDS), st.sampled_from(["", "dmy", "ymd", "x"]))
def test_any_text_of_markup_is_spoken_or_refused(language: str, text: str, kind: str, order: str) -> None:
    plain = text.replace("&", "").replace("<", "")
    document = f"<speak><say-as interpret-as='{kind}' format='{order}'>{plain}</say-as></speak>"
    with suppress(InvalidRequest):
        SpeechScript(SpeechRequest(document, input_type="ssml"), TextSettings("ssml", language, normalise=True))


@pytest.mark.parametrize("number", ["1.000.000.000.000.000.000,5", "9" * 40 + ",5", "9" * 40 + ".25", "9" * 200 + ",5"])
@pytest.mark.parametrize("language", ["de", "fr", "es", "it", "pt", "ru"])
@pytest.mark.parametrize("unit", ["", " km", " €", "%", " км", " руб."])
def test_a_fraction_of_a_number_too_long_to_say_is_said_digit_by_digit(number: str, language: str, unit: str) -> None:
    said = read(number + unit, TextSettings(language=language, normalise=True))
    assert not any(char.isdigit() for char in said)
