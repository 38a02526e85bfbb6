"""Every character that Python takes for a digit or a number is spoken or refused, wherever digits are expected."""

import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pytest

from rhapsode.errors import InvalidRequest
from rhapsode.text.book import book_of
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.normalise.language import LANGUAGES
from rhapsode.text.say_as import KINDS

NUMBERS = [char for char in map(chr, range(0x110000)) if char.isnumeric() or char.isdigit() or char.isdecimal()]
LINES = """
{} a{} {}a 1{} {}1 1{}5 ({}) {}'s '{}0s {}{}{}{} 19{}{} www.a{}b.com @a{} #b{} http://{} a{}@b.com {}@{}.com
{}:{} {}:30 12:{} {}am {}_p.m. 1h{} {}h30 {}.{}.2024 2024-{}-01 {}/{}/{} March_{} {}年{}月{}日 {}時{}分 {}시_{}분
{}._März 3{}_марта ${} {}$ {}€ €{} R${} ¥{} £{}_million {}k {}_USD EUR_{} {}% {}km {}_kg 5'{} 6ft{} {}° m{}
{}st {}th {}rd {}er {}º {}ª {}-й {}e {}/{} 1/{} ½{} {}-{} 1-{} {},000 {}.5 3.{} +{} -{} #{} {}x {}+{}=2 100_{}
No._{} Chapter_{} Mr._{} v{}.1.2 192.168.{}.1 555-{} +1_{} +{}{}{}_{}{}{} code_{}{}{} COVID-{} A{} {}руб.
"""
TEMPLATES = LINES.split()
MARKUP = [
    "<speak><break time='{}s'/>a</speak>",
    "<speak><break time='1.{}ms'/>a</speak>",
    "<speak><prosody rate='{}%'>a</prosody></speak>",
    "<speak><mark name='{}'/>a&#{};</speak>",
    *(f"<speak><say-as interpret-as='{kind}'>{{}} 1{{}} {{}}/{{}}/{{}}</say-as></speak>" for kind in KINDS),
    *(f"<speak><say-as interpret-as='{kind}'>{{}}</say-as></speak>" for kind in KINDS),
    "<speak><say-as interpret-as='date' format='dmy'>{}.{}.{}</say-as></speak>",
]
MARKDOWN = ["# {}\n\na", "{}.\n\na", "Chapter {}\n\na", "- {}\n{}. a\n\n[{}](b{})", "**{}** _{}_"]
MORE_THAN_INT_READS = "1" * 5000


def kinds() -> list[str]:
    """Two characters of each kind: all that rules ask about a character is equal."""
    of_kind: dict[object, list[str]] = {}
    for char in NUMBERS:
        plain = unicodedata.normalize("NFKC", char)
        asked = (char.isdigit(), char.isdecimal(), char.isalpha(), char.isascii(), plain.isascii(), len(plain) > 1)
        of_kind.setdefault((*asked, unicodedata.category(char)), []).append(char)
    return [char for chars in of_kind.values() for char in {chars[0], chars[-1]}]


def filled(templates: Iterable[str], chars: Iterable[str]) -> Iterator[str]:
    return (template.replace("_", " ").replace("{}", char) for template in templates for char in chars)


def read(text: str, settings: TextSettings) -> None:
    front_end = FrontEnd(settings)
    with suppress(InvalidRequest):
        front_end.push(text)
        front_end.close()


@pytest.mark.parametrize("language", [*LANGUAGES, None])
def test_a_number_of_any_script_is_spoken_wherever_a_digit_may_be(language: str | None) -> None:
    for text in filled(TEMPLATES, [*kinds(), MORE_THAN_INT_READS]):
        read(text, TextSettings(language=language, normalise=True, phonemes=language == "en"))


@pytest.mark.parametrize("language", ["en", "de", "zh"])
def test_each_number_of_unicode_is_spoken_in_addresses_times_and_sums(language: str) -> None:
    templates = ["www.a{}b.com", "@a{}", "{}:30", "${}", "{}{}{}{}", "{}.{}.2024"]
    read(" ".join(filled(templates, NUMBERS)), TextSettings(language=language, normalise=True))


@pytest.mark.parametrize("language", ["en", "de", "ru", "zh", "ko"])
def test_a_number_of_any_script_in_markup_is_spoken_or_refused(language: str) -> None:
    for text in filled(MARKUP, [*kinds(), MORE_THAN_INT_READS]):
        read(text, TextSettings(input_type="ssml", language=language, normalise=True))


def test_a_number_of_any_script_in_a_book_is_text_or_a_heading() -> None:
    for text in filled(MARKDOWN, [*kinds(), MORE_THAN_INT_READS]):
        for input_type in ("text", "markdown", "html"):
            with suppress(InvalidRequest):
                book_of(text, "book", input_type=input_type)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("www.a²b.com", "W W W dot a ² b dot com"),
        ("www.a12b.com", "W W W dot a twelve b dot com"),
        ("#b³", "hashtag b ³"),
    ],
)
def test_digits_that_are_not_ascii_stay_as_they_are_in_addresses(text: str, spoken: str) -> None:
    front_end = FrontEnd(TextSettings(language="en", normalise=True))
    events = [*front_end.push(text), *front_end.close()]
    assert "".join(event.text for event in events).lower() == spoken.lower()
