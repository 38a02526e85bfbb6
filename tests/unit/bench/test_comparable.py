"""Error rates that others can compare: Whisper's rules for English, and characters for Chinese, Japanese and Korean."""

import pytest

from rhapsode.bench.quality.american import american
from rhapsode.bench.quality.comparable import rate, rule_of, units
from rhapsode.bench.quality.whisper_english import normalise
from rhapsode.bench.quality.whisper_numbers import in_digits


@pytest.mark.parametrize(
    ("spoken", "written"),
    [
        ("two", "2"),
        ("thirty one", "31"),
        ("five twenty four", "524"),
        ("nineteen ninety nine", "1999"),
        ("twenty nineteen", "2019"),
        ("nineteen oh one", "1901"),
        ("two point five million", "2500000"),
        ("four point two billions", "4200000000s"),
        ("200 thousand dollars", "$200000"),
        ("$20 million", "$20000000"),
        ("€52.4 million", "€52400000"),
        ("£77 thousands", "£77000s"),
        ("two double o eight", "2008"),
        ("forty three thousand two hundred and sixty", "43260"),
        ("nineteen fifties", "1950s"),
        ("thirty first", "31st"),
        ("december twelfth", "december 12th"),
        ("thirty three thousand and three hundred and third", "33303rd"),
        ("millions", "1000000s"),
        ("august twenty sixth twenty twenty one", "august 26th 2021"),
        ("3 14", "3 14"),
        ("3 point 14", "3.14"),
        ("two point two five dollars", "$2.25"),
        ("seventy six per cent", "76%"),
        ("double oh seven", "007"),
        ("nine double one", "911"),
        ("one triple oh one", "10001"),
        ("thirty two thousandth", "32000th"),
        ("minus 500", "-500"),
        ("positive twenty thousand", "+20000"),
        ("two dollars and seventy cents", "$2.70"),
        ("3 cents", "¢3"),
        ("$0.36", "¢36"),
        ("three euros and sixty five cents", "€3.65"),
        ("three and a half million", "3500000"),
        ("forty eight and a half dollars", "$48.5"),
        ("b747", "b 747"),
        ("10 th", "10th"),
        ("one of two and three", "one of 2 and 3"),
    ],
)
def test_spoken_numbers_become_digits(spoken: str, written: str) -> None:
    assert in_digits(spoken) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Let's", "let us"),
        ("he's like", "he is like"),
        ("she's been like", "she has been like"),
        ("10km", "10 km"),
        ("RC232", "rc 232"),
        ("Mr. Park visited Assoc. Prof. Kim Jr.", "mister park visited associate professor kim junior"),
        ("I'd been (uh) there, um, [noise] twice!", "i had been there twice"),
        ("It costs $1,250.", "it costs $1250"),
        ("50 % of naïve cafés", "50 of naive cafes"),
        ("from 9:05 to 10:50", "from 9 5 to 10 50"),
    ],
)
def test_english_is_normalised_as_whisper_does(text: str, written: str) -> None:
    assert normalise(text) == written


@pytest.mark.parametrize(
    ("british", "word"),
    [
        ("mobilisation", "mobilization"),
        ("organised", "organized"),
        ("favourite", "favorite"),
        ("honourable", "honorable"),
        ("kilometres", "kilometers"),
        ("travelling", "traveling"),
        ("catalogue", "catalog"),
        ("analysed", "analyzed"),
        ("paediatric", "pediatric"),
        ("fulfilment", "fulfillment"),
        ("manoeuvre", "maneuver"),
        ("grey", "gray"),
    ],
)
def test_british_spellings_become_american(british: str, word: str) -> None:
    assert american(british) == word


@pytest.mark.parametrize("word", ["promising", "surprise", "exercise", "noise", "rises", "four", "acre", "controlled"])
def test_other_words_keep_their_spelling(word: str) -> None:
    assert american(word) == word


@pytest.mark.parametrize(
    ("language", "text", "heard", "wrong"),
    [
        ("zh", "今天天气很好，我们走吧。", "今天天气 很好 我们走吧", 0),
        ("zh", "今天天气很好。", "今天天汽很好", 1 / 6),
        ("ja", "散歩しましょう！", "散歩 しましょう", 0),
        ("ko", "산책하고 싶습니다.", "산책 하고싶습니다", 0),
        ("en", "The colour cost twenty dollars.", "the color cost $20", 0),
        ("en", "a big grey cat", "a big cat", 0.25),
        ("fr", "Où est-il ?", "où est il", 0),
    ],
)
def test_rates_count_words_or_characters(language: str, text: str, heard: str, wrong: float) -> None:
    assert rate([(text, heard)], language) == pytest.approx(wrong)


def test_each_language_names_its_rules() -> None:
    assert rule_of("ko").metric == rule_of("zh-CN").metric == "cer"
    assert rule_of("en").normaliser == "whisper-en (rules)"
    assert rule_of("de").normaliser == "whisper-basic (rules)"
    assert units("Grüße, Welt!", "de") == ["grüße", "welt"]
    assert rate([("...", "a word")], "en") is None
