"""Abbreviations that are said letter by letter are looked for by the names of their letters."""

import pytest

from rhapsode.alignment.abbreviations import said
from rhapsode.alignment.text import SoughtWord, WordText
from rhapsode.text.front_end import TextSettings
from unit.alignment.spelled import SYMBOLS


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("Q", "cue"),
        ("x", "ex"),
        ("W", "doubleyou"),
        ("PBX", "pee-bee-ex"),
        ("HTTP", "aitch-tee-tee-pee"),
        ("IAX", "eye-ay-ex"),
        ("USA", "you-ess-ay"),
        ("OK", "oh-kay"),
    ],
)
def test_letters_have_names(word: str, names: str) -> None:
    assert said(word) == names


@pytest.mark.parametrize(
    "word", ["a", "A", "I", "The", "THE", "NOT", "GO", "RAM", "NASA", "STOP", "Hmm", "PBXs", "7", "é", ""]
)
def test_words_stay_words(word: str) -> None:
    assert said(word) == word


def sought(text: str, language: str = "en") -> list[SoughtWord]:
    words = WordText(TextSettings(language=language), SYMBOLS, language)
    words.push(text)
    words.close()
    return [item for item in words.take()[0] if isinstance(item, SoughtWord)]


def test_the_letters_of_an_abbreviation_are_one_written_word() -> None:
    text = "Our (PBX), now."
    assert [word.letters for word in sought(text)] == ["our", "pee", "bee", "ex", "now"]
    assert [word.text for word in sought(text) if word.is_last] == ["Our", "PBX", "now"]
    assert all(text[word.start_char : word.stop_char] == word.text for word in sought(text))


def test_other_languages_have_other_names() -> None:
    assert [word.letters for word in sought("PBX", "de")] == ["pbx"]
