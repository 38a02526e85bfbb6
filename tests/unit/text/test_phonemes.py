"""Words are told as the phonemes that the talker learned, whole or in pieces, and each knows its written characters."""

import re
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.text.events import TextEvent
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.lexicon import Lexicon
from rhapsode.text.phonemes.sounds import respelled
from rhapsode.text.phonemes.stream import LONGEST_WORD, MOST_WORDS
from rhapsode.text.phonemes.table import SortedLines, read_table
from rhapsode.text.spoken import SpokenRun, SpokenText

SPOKEN = [line.split("\t") for line in Path(__file__).with_name("spoken.tsv").read_text("utf-8").splitlines()]
"""Sentences of the corpus with the phonemes that the teacher spoke, as `training/phonemes.py` wrote them."""
SETTINGS = TextSettings(language="en", normalise=True, phonemes=True, lexicon=Lexicon({"SQL": "sequel"}))
PLAIN = TextSettings(language="en", phonemes=True)
CUTS = st.lists(st.integers(0, 10_000), max_size=12)
WORDS = (
    *(
        "the",
        "to",
        "a",
        "an",
        "in",
        "by",
        "am",
        "used",
        "I",
        "read",
        "live",
        "use",
        "record",
        "US",
        "IT",
        "it's",
        "don't",
    ),
    *("they'd've", "o'clock", "twenty-first", "Nguyen's", "SQL", "apple,", "hour.", "“quoted”", "'single'", "(both)"),
    *(
        "—",
        "–",
        "-",
        "--",
        "...",
        "…",
        "!",
        "dogs'",
        "DON'T",
        "and/or",
        "$12.50",
        "1999",
        "3:45",
        "Zqxv",
        "zqxved",
        "x",
    ),
    "supercalifragilistic" * 4,
    "\n",
    "",
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
ANY = st.text(st.sampled_from("aAeItThHsS'’\"“.,!?-—…() \n1$ɐˈ日"), max_size=80)


def told(text: str, settings: TextSettings = PLAIN, cuts: list[int] | None = None) -> SpokenText:
    front_end = FrontEnd(settings)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts or ()), len(text)]
    events: list[TextEvent] = []
    for start, stop in pairwise(edges):
        events += front_end.push(text[start:stop])
    events += front_end.close()
    return SpokenText(tuple(event for event in events if isinstance(event, SpokenRun)))


def per_character(spoken: SpokenText) -> list[tuple[str, int, int]]:
    """Each character with the written ones it stands for: the same, however runs are cut."""
    ranges = ((run, range(len(run.text))) for run in spoken.runs)
    return [tuple(run.part(at, at + 1)[:3]) for run, places in ranges for at in places]


# --- text in pieces ---


@given(TEXTS, CUTS)
def test_text_in_pieces_is_told_as_the_whole(text: str, cuts: list[int]) -> None:
    assert per_character(told(text, SETTINGS, cuts)) == per_character(told(text, SETTINGS))


@given(ANY, CUTS)
def test_whatever_the_text_its_pieces_are_told_as_the_whole(text: str, cuts: list[int]) -> None:
    assert per_character(told(text, PLAIN, cuts)) == per_character(told(text, PLAIN))


@given(st.sampled_from(SPOKEN), st.sampled_from(SPOKEN), CUTS)
def test_sentences_in_pieces_are_told_as_the_whole(one: list[str], other: list[str], cuts: list[int]) -> None:
    text = f"{one[0]} {other[0]}"
    assert per_character(told(text, SETTINGS, cuts)) == per_character(told(text, SETTINGS))


@given(TEXTS)
def test_the_written_characters_are_all_covered_in_order(text: str) -> None:
    position = 0
    for run in told(text).runs:
        assert run.start == position
        assert not run.copied or run.text == text[run.start : run.stop]
        position = run.stop
    assert position == len(text)


def test_a_word_that_depends_on_nothing_is_told_at_once() -> None:
    front_end = FrontEnd(PLAIN)
    assert [event.text for event in front_end.push("breakfast ")] == [respelled("bɹˈɛkfəst"), " "]
    assert front_end.push("the ") == []
    assert [event.text for event in front_end.push("apple ")] == [respelled("ði"), " ", respelled("ˈæpᵊl"), " "]


def test_a_long_word_passes_as_it_arrives_and_a_long_sentence_ends() -> None:
    front_end = FrontEnd(PLAIN)
    assert "".join(event.text for event in front_end.push("x" * (LONGEST_WORD + 1))) == "x" * (LONGEST_WORD + 1)
    assert "".join(event.text for event in front_end.push("yz ")) == "yz "
    said = "".join(event.text for event in front_end.push("the " * (MOST_WORDS + 1)))
    assert len(said.split()) >= MOST_WORDS


# --- readings ---

READINGS = {
    "I ate breakfast and noodles.": "ˌI ˈAt bɹˈɛkfəst ænd nˈudᵊlz.",
    "I read it yesterday.": "ˌI ɹˈɛd ɪt jˈɛstəɹdˌA.",
    "They have read the hour.": "ðˌA hæv ɹˈɛd ði ˈWəɹ.",
    "We live near live music.": "wˌi lˈɪv nˌɪɹ lˈIv mjˈuzɪk.",
    "Use the use.": "jˈuz ðə jˈus.",
    "He used to go to Oslo.": "hˌi jˈust tə ɡˌO tʊ ˈɑzlˌO.",
    "He used a saw to eat.": "hˌi jˈuzd ɐ sˈɔ tʊ ˈit.",
    "Fifty-one vitamins": "fˈɪftiwˌʌn vˈITəmənz",
    "Vitamin A is good.": "vˈITəmən ˈA ɪz ɡˈʊd.",
    "In the US, I'm in.": "ɪn ðə jˌuˈɛs, ˌIm ˈɪn.",
    "Please record a record.": "plˈiz ɹəkˈɔɹd ɐ ɹˈɛkəɹd.",
    "The mother-in-law's e-mail.": "ðə mˈʌðəɹənlˌɔz ˈimˌAl.",
    "IBM and NASA": "ˌIbˌiˈɛm ænd nˈæsə",
    "“The end,” he said.": "“ði ˈɛnd,” hi sˈɛd.",
}


@pytest.mark.parametrize(("text", "phonemes"), READINGS.items())
def test_words_are_told_as_they_sound_here(text: str, phonemes: str) -> None:
    assert told(text).text == respelled(phonemes)


def test_words_that_the_lexicon_lacks_stay_in_letters_with_their_signs() -> None:
    assert told("The zqxvy, (Zqxv) and b2b.").text == f"{respelled('ðə')} zqxvy, (Zqxv) {respelled('ænd')} b2b."


def test_the_phonemes_are_those_that_the_teacher_spoke() -> None:
    same = in_letters = names = 0
    others: list[str] = []
    for text, phonemes in SPOKEN:
        written, found, expected = text.split(), told(text).text.split(), respelled(phonemes).split()
        if not len(written) == len(found) == len(expected):
            continue  # a sign between blanks, say: the talker learns such a sentence as a whole
        for word, mine, theirs in zip(written, found, expected, strict=True):
            bare = re.sub(r"\W|'s", "", word.lower())
            if mine == theirs:
                same += 1
            elif mine == word:
                in_letters += 1
            elif read_table().names.get(bare) is not None:
                names += 1
            elif mine.strip("“”") != theirs.strip("“”"):
                others.append(word)
    total = same + in_letters + names + len(others)
    assert total > 2500
    assert same / total >= 0.99
    assert in_letters / total < 0.005
    assert sorted(others) == ["Anna", "Elena", "Joseph", "Joshua"]  # as people say them: the teacher's lexicon does not


# --- the steps before ---


def test_numbers_and_respellings_are_told_as_phonemes_of_their_words() -> None:
    text = "SQL costs $5."
    spoken = told(text, SETTINGS)
    assert spoken.text == respelled("sˈikwəl kˈɔsts fˈIv dˈɑləɹz.")
    assert [text[word.start : word.stop] for word in spoken.words()] == ["SQL", "costs", "$5", "$5."]


def test_what_ssml_replaces_is_told_as_phonemes_and_a_pause_ends_a_sentence() -> None:
    ssml = TextSettings("ssml", "en", normalise=True, phonemes=True)
    document = "<speak>The <sub alias='apple'>x</sub> to<break time='1s'/>eat</speak>"
    spoken = told(document, ssml, [20, 21, 33, 50])
    assert spoken.text == respelled("ði ˈæpᵊl tuˈit")
    words = [document[word.start : word.stop] for word in SpokenText(spoken.runs[:3]).words()]
    assert words == ["The", "<sub alias='apple'>x</sub>"]


# --- the file ---


def test_lines_are_found_by_their_keys_alone() -> None:
    lines = SortedLines(b"a\t1\nab\t\nb\t2\n")
    assert [lines.get(key) for key in ("a", "ab", "b", "", "aa", "c")] == ["1", "", "2", None, None, None]
    assert SortedLines(b"").get("a") is None


def test_the_table_is_read_once() -> None:
    found = []
    threads = [threading.Thread(target=lambda: found.append(read_table())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert read_table() is read_table()
    assert len(read_table().gold) > 90_000
