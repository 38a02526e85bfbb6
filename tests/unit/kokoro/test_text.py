"""Text becomes the model's phonemes as the original package makes them, and is cut where that package cuts it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rhapsode.errors import InvalidRequest
from rhapsode.models.kokoro.text import espeak
from rhapsode.models.kokoro.text.english import american, british
from rhapsode.models.kokoro.text.pieces import Token, passages, plain, tokens_of
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.phonemes.guess import guessed
from rhapsode.text.pieces import PieceStream
from rhapsode.text.spoken import SpokenRun
from unit.kokoro.golden import INDEX, TEXT

MOST = 510
PRINTED = {
    "Hola": "ˈola", "cómo estás": "kˈomo estˈas", "Tengo 25 años": "tˈɛŋɡo βˌe^ɪntiθˈinko ˈaɲos",
    "El niño corre": "el nˈiɲo kˈore", "muy rápido": "mˈuj rˈapiðo",
    "Bonjour": "bɔ̃ʒˈuʁ", "ça va": "sa vˈa", "J'ai vingt-deux ans": "ʒe vˈɛ̃tdˈøz ˈɑ̃",
    "Oui": "wˈi", "dit-elle": "dˈitˈɛl", "नमस्ते": "nəmˈʌsteː", "आप कैसे हैं": "ˌaːp kˈɛːseː hɛ̃",
    "Buongiorno": "bʊond^ʒˈɔrno", "come stai": "kˌome stˈaj", "Gli gnocchi": "ʎɪ ɲˈokːɪ",
    "Olá": "olˈa", "tudo bem": "tˈudʊ bˈe^ɪŋ", "Não sei": "nˌɐ̃^ʊ̃ sˈe^ɪ",
}  # fmt: skip
"""What espeak-ng 1.52 prints for the parts of the golden texts."""


def normalised(text: str) -> str:
    front_end = FrontEnd(TextSettings(language="en", normalise=True))
    runs = [*front_end.push(text), *front_end.close()]
    return "".join(run.text for run in runs if isinstance(run, SpokenRun))


@pytest.mark.parametrize("case", range(len(TEXT["chunks"])))
def test_long_texts_are_cut_where_upstream_cuts_them(case: int) -> None:
    found = TEXT["chunks"][case]
    made = list(passages([Token(phonemes, blank) for _, blank, phonemes in found["tokens"]], MOST))
    wanted = [phonemes for _, phonemes in found["chunks"]]
    if all(0 < len(one) <= MOST for one in wanted):
        assert made == wanted
    else:  # a single token is too long: upstream makes an empty piece, and one that its model cannot take
        assert all(0 < len(one) <= MOST for one in made)
        assert "".join(made) == "".join(wanted)


def test_phonemes_taken_apart_are_the_same_phonemes() -> None:
    said = "“wˈɛl,” ʃi sˈɛd (twˈIs) — “ɪz ðæt ɪt?”"
    assert "".join(token.phonemes + token.blank for token in tokens_of(said)) == said


def words_alike(made: list[str], wanted: list[str]) -> float:
    pairs = [(ours, theirs) for one, other in zip(made, wanted, strict=True) for ours, theirs in _pairs(one, other)]
    return sum(ours == theirs for ours, theirs in pairs) / len(pairs)


def _pairs(one: str, other: str) -> list[tuple[str, str]]:
    return list(zip(one.split(), other.split(), strict=False))


def test_english_is_told_as_the_original_package_tells_it() -> None:
    """The texts without markup; a British voice gets British sounds for the words of the American lexicon."""
    cases = [case for case in TEXT["english"] if "](" not in case["text"]]
    texts = [normalised(case["text"]) for case in cases]
    assert words_alike([american(text) for text in texts], [case["en-us"] for case in cases]) > 0.85
    british_words = [case["en-gb"] for case in cases]
    assert words_alike([british(text) for text in texts], british_words) > 0.65
    assert words_alike([american(text) for text in texts], british_words) < 0.45


def test_all_symbols_of_english_are_the_models() -> None:
    said = american(normalised('She said "hello" (twice) - Zqxv\'s 12 x-rays & more… [sic] naïve Ångström'))
    assert set(said) <= set(INDEX["config"]["vocab"])
    assert "“həlˈO” (twˈIs) — " in said
    assert "twˈɛlv" in american("12")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("blorf", "blˈɔɹf"),
        ("knuffle", "nˈʌfᵊl"),
        ("grape", "ɡɹˈAp"),
        ("phontide", "fˈɑntId"),
        ("привет", ""),
        ("é", "ˈɛ"),
    ],
)
def test_unknown_words_are_guessed_by_their_letters(word: str, said: str) -> None:
    assert guessed(word) == said


def pieces(*texts: str, most: int = MOST, **how: Any) -> list[str]:
    stream, found = PieceStream(plain=plain, **how), list[str]()
    for text in (*texts, None):
        if text is None:
            stream.close()
        else:
            stream.push(text)
        while (piece := stream.pop()) is not None:
            found.extend(passages(tokens_of(piece.lower()), most))
    return found


def test_a_piece_is_a_sentence_or_a_line() -> None:
    text = "One two. Three four!\nFive\n\nSix. Seven."
    assert pieces(text) == ["one two.", "three four!", "five", "six.", "seven."]
    assert pieces(text, by_sentence=False) == ["one two. three four!", "five", "six. seven."]
    assert pieces(*text) == pieces(text)
    assert pieces(*text, by_sentence=False) == pieces(text, by_sentence=False)


def test_a_piece_fits_the_model() -> None:
    assert pieces("One, two three. " + "a" * 30, by_sentence=False, most=12) == [
        "one,", "two three.", "a" * 12, "a" * 12, "a" * 6
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("most", "cut"),
    [(20, 28), (30, 28), (49, 46), (60, 58)],
)
def test_a_long_first_sentence_may_be_cut_after_a_clause(most: int, cut: int) -> None:
    """After the last one that fits, or the first that is long enough; later sentences are never cut."""
    first = "well, it was the best of it, it was the worst: we, i say, knew."
    text = f"{first} {first}"
    made = pieces(text, first_chars=most)
    assert made == [*filter(None, (first[:cut].strip(), first[cut:].strip())), first]
    assert pieces(*text, first_chars=most) == made


def test_a_first_sentence_without_clauses_stays_whole() -> None:
    assert pieces("one two three four five six seven.", first_chars=20) == ["one two three four five six seven."]


def test_markup_of_the_original_package_is_not_obeyed() -> None:
    assert pieces("[Kokoro](/kˈOkəɹO/) is [not](+2) a [robot](#x#).") == ["kokoro is not a robot."]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that prints what espeak-ng prints."""
    file = tmp_path / "espeak-ng"
    table = json.dumps(PRINTED)
    file.write_text(
        f"#!{sys.executable} -S\nimport json, sys\ntable = json.loads({table!r})\n"
        "sys.stdin.reconfigure(encoding='utf-8'); sys.stdout.reconfigure(encoding='utf-8')\n"
        "for line in sys.stdin: print(table[line.strip()])\n",
        "utf-8",
    )
    file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return file


def test_other_languages_are_told_by_espeak(command: Path) -> None:
    for case in TEXT["espeak"]:
        assert espeak.phonemes_of(case["text"], case["language"].split("-")[0]) == case["phonemes"]


def test_what_is_missing_for_a_language_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequest, match="Spanish needs the command espeak-ng here: install espeak-ng"):
        espeak.phonemes_of("Hola", "es")
    with pytest.raises(InvalidRequest, match="Japanese cannot be told in phonemes here: give them in the option"):
        espeak.phonemes_of("もしもし", "ja")


def test_a_command_that_fails_is_no_crash(command: Path) -> None:
    with pytest.raises(Exception, match="espeak-ng failed") as caught:
        espeak.phonemes_of("an unknown line", "es")
    assert caught.value.status == 503
