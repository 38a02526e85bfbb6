"""Text is cleaned, split and streamed without losing a word."""

import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.text.clean import MAX_MARKS, clean, is_speakable, well_formed
from rhapsode.text.split import split
from rhapsode.text.stream import SentenceStream

REALISTIC = [
    "Dr. Smith paid $3.14 for it. Then he left at 5 p.m. and nobody saw him again.",
    "Mr. Jones and Mrs. Brown met Prof. White on Jan. 5. They talked. It rained!",
    "Wait... what? Yes! No. Version 2.0.1 is out; see example.com for more. Good.",
    "The first line\nand the second line.\n\nA new paragraph begins. It ends here.",
    "The U.S. is big. The U.K. is not. What about France? Well, 1,000,000 people asked.",
    "She asked why. Nobody knew, not even Dr. Who. “Curious,” said the cat. Then silence.",
]
DIALOGUE = '"Hello there," she said. "How are you?" He smiled. "Fine," he said. "And you?" She left.'
CHINESE = "你好。今天天气很好。我们去公园吧！好吗？好的，没问题。"

WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)
TRICKY = [
    "Dr.",
    "Mr.",
    "e.g.",
    "3.14",
    "1,000",
    "10:30",
    "fox.",
    "dog!",
    "cat?",
    "so,",
    "thus;",
    "well—",
    "etc.",
    "U.S.",
]
SENTENCES = st.lists(st.one_of(st.sampled_from([*TRICKY, "the", "a", "and"]), WORDS), max_size=60).map(" ".join)


def letters(text: str) -> str:
    """Everything but spaces."""
    return "".join(text.split())


def stream(text: str, cuts: list[int], language: str = "en", most_chars: int = 300) -> list[str]:
    sentences = SentenceStream(language, most_chars)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for start, stop in pairwise(edges):
        sentences.push(text[start:stop])
    sentences.close()
    return drain(sentences)


def drain(sentences: SentenceStream) -> list[str]:
    return list(iter(sentences.pop, None))


# --- clean ---


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("cafe\u0301", "café"),
        ("a\x00b\x07c\x1b[0m", "abc[0m"),
        ("a\x85b\x9fc", "abc"),
        ("x\ud800y\udfffz", "xyz"),
        ("\ufeffHello", "Hello"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("a \t  b\u00a0c\u3000d", "a b c d"),
        ("  edges \n", "edges"),
        ("one  \n  two", "one\ntwo"),
        ("one\n\n\n\n\ntwo", "one\n\ntwo"),
        ("\ue000private\U000e0fff", "private"),
        ("", ""),
        (" \n\t ", ""),
    ],
)
def test_cleaning_leaves_only_what_can_be_read(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


def test_cleaning_keeps_joiners_that_carry_meaning() -> None:
    assert clean("می\u200cخواهم 👩\u200d🚀") == "می\u200cخواهم 👩\u200d🚀"


@given(st.text(st.characters(exclude_categories=[])))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(st.text(st.characters(exclude_categories=[])))
def test_cleaned_text_is_normal_visible_and_encodable(text: str) -> None:
    cleaned = clean(text)
    assert unicodedata.is_normalized("NFC", cleaned)
    assert cleaned == cleaned.strip()
    assert "  " not in cleaned
    assert "\n\n\n" not in cleaned
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn") for c in cleaned if c != "\n")
    cleaned.encode("utf-8")


MARKS = st.text(st.sampled_from("ae\u0301\u0323\u0315\u0300\u0344\u0f73\u0f71\u0958\u1100\u1161\x00 "), max_size=300)


@given(MARKS)
def test_cleaned_marks_are_normal_and_few_and_stay_so(text: str) -> None:
    cleaned = clean("".join(char * 7 for char in text))
    assert unicodedata.is_normalized("NFC", cleaned)
    assert clean(cleaned) == cleaned


def test_no_letter_keeps_more_marks_than_any_language_needs() -> None:
    assert clean("a" + "\u0315\u0300" * 500 + "b") == clean("a" + "\u0315\u0300" * 15) + "b"
    assert len(clean("a" + "\u0315" * 500)) == 1 + MAX_MARKS


def test_every_character_that_decomposes_into_marks_counts_as_one() -> None:
    for code in range(0x110000):
        char = chr(code)
        first = unicodedata.normalize("NFD", char)[0] if code > 0xA0 and not 0xAC00 <= code < 0xD7A4 else char
        if unicodedata.combining(first) and not unicodedata.combining(char):
            assert len(clean("a" + char * 500)) <= 1 + MAX_MARKS, hex(code)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\ud800b", "ab"), ("\ud83d\ude00", "\U0001f600"), ("\ude00\ud83d", ""), ("plain é", "plain é")],
)
def test_lone_surrogates_are_dropped_and_pairs_are_joined(text: str, expected: str) -> None:
    assert well_formed(text) == expected


@pytest.mark.parametrize("text", ["", " ", "🎉", "👩\u200d🚀", "\u200b\u2060", "...", "?!", "❤\ufe0f", "🇩🇪", "\u0301"])
def test_what_has_no_letter_and_no_digit_says_nothing(text: str) -> None:
    assert not is_speakable(text)


@pytest.mark.parametrize("text", ["a", "5", "你", "🎉 party", "½", "あ!", "ß"])
def test_a_letter_or_a_digit_is_something_to_say(text: str) -> None:
    assert is_speakable(text)


@given(SENTENCES)
def test_cleaning_loses_no_word(text: str) -> None:
    assert clean(text).split() == unicodedata.normalize("NFC", text).split()


# --- split ---


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith left. He was tired.", ["Dr. Smith left.", "He was tired."]),
        ("It costs 3.14 dollars. Cheap!", ["It costs 3.14 dollars.", "Cheap!"]),
        ('"Hello there," she said. "How are you?"', ['"Hello there," she said.', '"How are you?"']),
        ('He said "Stop!" and ran. She followed.', ['He said "Stop!" and ran.', "She followed."]),
        ("Wait... what? Yes!", ["Wait... what?", "Yes!"]),
        ("The U.S. is big. Really.", ["The U.S. is big.", "Really."]),
        ("A title\n\nA paragraph.", ["A title", "A paragraph."]),
        ("no end", ["no end"]),
        ("", []),
        ("  \n ", []),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


def test_chinese_sentences_need_no_spaces() -> None:
    expected = ["你好。", "今天天气很好。", "我们去公园吧！", "好吗？", "好的，没问题。"]
    assert split(CHINESE, "zh") == expected


def test_a_long_sentence_is_cut_at_its_clauses() -> None:
    text = "When the rain had stopped, we went outside, and the street was full of people; nobody spoke."
    expected = ["When the rain had stopped, we went outside,", "and the street was full of people;", "nobody spoke."]
    assert split(text, most_chars=45) == expected


def test_a_long_clause_is_cut_between_words() -> None:
    assert split("one two three four five six seven", most_chars=13) == ["one two three", "four five six", "seven"]


def test_a_word_longer_than_all_is_cut_at_last() -> None:
    assert split("a" * 25, most_chars=10) == ["a" * 10, "a" * 10, "a" * 5]


def test_a_long_chinese_sentence_is_cut_at_its_clauses() -> None:
    assert split("今天天气很好，我们去公园散步，然后回家。", "zh", 8) == [
        "今天天气很好，",
        "我们去公园散步，",
        "然后回家。",
    ]


@pytest.mark.parametrize("word", ["1,000,000", "10:30", "http://example.com/a,b;c", 'there,"', "ratio:2", "(yes;)"])
def test_a_word_with_a_comma_or_a_colon_in_it_stays_whole(word: str) -> None:
    text = f"This sentence is long enough to be cut somewhere near {word} and it goes on after that"
    for most_chars in range(24, len(text)):
        parts = split(text, most_chars=most_chars)
        assert " ".join(parts).split() == text.split()


@given(SENTENCES, st.integers(20, 120))
def test_splitting_loses_no_word(text: str, most_chars: int) -> None:
    assert " ".join(split(text, most_chars=most_chars)).split() == text.split()


@given(st.text(), st.integers(1, 60))
def test_splitting_loses_no_letter_and_every_part_fits(text: str, most_chars: int) -> None:
    parts = split(text, most_chars=most_chars)
    assert letters("".join(parts)) == letters(text)
    assert all(1 <= len(part) <= most_chars for part in parts)
    assert all(part == part.strip() for part in parts)


# --- stream ---


@given(st.text(), st.lists(st.integers(0, 10_000), max_size=12), st.integers(1, 60))
def test_however_text_arrives_nothing_is_lost_or_said_twice(text: str, cuts: list[int], most_chars: int) -> None:
    assert letters("".join(stream(text, cuts, most_chars=most_chars))) == letters(clean(text))


@given(SENTENCES, st.lists(st.integers(0, 10_000), max_size=12))
def test_however_sentences_arrive_their_words_stay_whole(text: str, cuts: list[int]) -> None:
    assert " ".join(stream(text, cuts)).split() == clean(text).split()


@pytest.mark.parametrize("text", REALISTIC)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_text_in_pieces_has_the_sentences_of_the_whole(text: str, cuts: list[int]) -> None:
    assert stream(text, cuts) == split(clean(text))


@pytest.mark.parametrize("text", REALISTIC)
def test_text_letter_by_letter_has_the_sentences_of_the_whole(text: str) -> None:
    assert stream(text, list(range(len(text)))) == split(clean(text))


@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_dialogue_in_pieces_has_the_sentences_of_the_whole_but_for_stray_quotes(cuts: list[int]) -> None:
    # Before its closing quote has come, an opening one may be taken for the end of the sentence before.
    def unquoted(sentences: list[str]) -> list[str]:
        return [sentence.replace('"', "").strip() for sentence in sentences]

    assert unquoted(stream(DIALOGUE, cuts)) == unquoted(split(clean(DIALOGUE)))


@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_chinese_in_pieces_has_the_sentences_of_the_whole(cuts: list[int]) -> None:
    assert stream(CHINESE, cuts, "zh") == split(CHINESE, "zh")


def test_a_sentence_comes_as_soon_as_the_next_one_has_begun() -> None:
    sentences = SentenceStream()
    sentences.push("It rained. ")
    assert sentences.pop() is None
    sentences.push("We stayed ")
    assert sentences.pop() == "It rained."
    assert sentences.pop() is None


def test_an_abbreviation_at_the_end_of_a_piece_ends_no_sentence() -> None:
    sentences = SentenceStream()
    for piece in ("I met Dr.", " Smith to", "day. He was", " well. "):
        sentences.push(piece)
    assert drain(sentences) == ["I met Dr. Smith today."]
    sentences.close()
    assert drain(sentences) == ["He was well."]


@pytest.mark.parametrize(
    ("language", "text", "first"),
    [("zh", "你好。今天天气很好。我们去公园", "你好。"), ("en", "Hello.\n\nGoodbye.\n\nAgain", "Hello.")],
)
def test_a_sentence_need_not_be_followed_by_a_blank_to_be_certain(language: str, text: str, first: str) -> None:
    sentences = SentenceStream(language)
    for letter in text:
        sentences.push(letter)
    assert sentences.pop() == first


def test_a_paragraph_break_next_to_a_blank_still_parts_sentences() -> None:
    text = "One is here. A title\n\n Another title"
    sentences = SentenceStream()
    for piece in ("One is here. A title\n\n ", "Another", " title"):
        sentences.push(piece)
    sentences.close()
    assert drain(sentences) == split(clean(text)) == ["One is here.", "A title", "Another title"]


def test_closing_hands_out_the_rest_once() -> None:
    sentences = SentenceStream()
    sentences.push("the rest")
    assert not sentences.closed
    sentences.close()
    sentences.close()
    assert sentences.closed
    assert drain(sentences) == ["the rest"]


def test_a_stream_of_nothing_has_no_sentences() -> None:
    assert stream("", []) == []
    assert stream(" \n ", [1]) == []


# --- hostile ---

QUOTES = ['"「', "「“”。", "」）‘「", "«」»「", "「a。", "a. ", "a ", "+", "a", "\n\n", "a, "]


@pytest.mark.parametrize("piece", QUOTES)
@pytest.mark.parametrize("step", [1, 512, 20_000])
def test_text_of_any_signs_is_split_in_linear_time(piece: str, step: int) -> None:
    text = (piece * 20_000)[: 4_000 if step == 1 else 20_000]
    started_s = time.process_time()
    found = stream(text, list(range(0, len(text), step)))
    assert time.process_time() - started_s < 3.0  # in one search some take 5 s, and with each step again
    assert letters("".join(found)) == letters(text)


def test_a_sentence_without_an_end_is_cut_between_clauses_and_words() -> None:
    text = "and so it went on, " * 100
    assert " ".join(split(text)).split() == text.split()
    assert all(part.endswith(",") for part in split(text))
