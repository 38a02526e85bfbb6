"""The search finds every word of the text in the frames, once and in order, whatever is cut where."""

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.alignment.decided import LONGEST_LEAD, LONGEST_TAIL, FoundWord
from rhapsode.alignment.model import FrameBlocks
from rhapsode.alignment.search import WINDOW, WordSearch
from unit.alignment.spelled import SYMBOLS, Said, frames, letters, say

LAG = 10
BLOCKS = FrameBlocks(3, 4)
TEXT = [
    *["it", "was", "the", "best", "of", "times"],
    *["it", "was", "the", "worst", "of", "times"],
    "all",
    "see",
    "bees",
]


def search(words: list[str], closed: bool = True) -> WordSearch:
    made = WordSearch(SYMBOLS, LAG, BLOCKS)
    for word in words:
        made.add(letters(word))
    if closed:
        made.close()
    return made


def whole(words: list[str], said: Said) -> list[FoundWord]:
    made = search(words)
    return made.feed(said.log_probs, said.quiet) + made.finish()


def spans(found: list[FoundWord]) -> list[tuple[int, int]]:
    return [(word.start, word.end) for word in found]


@pytest.mark.parametrize("seed", range(5))
def test_every_word_is_found_where_it_is_said(seed: int) -> None:
    said = say(TEXT, seed)
    found = whole(TEXT, said)
    assert [word.number for word in found] == list(range(len(TEXT)))
    errors = np.abs(np.array(spans(found)) - np.array(said.words))
    assert errors[:, 0].max() <= 1  # a blank before a word may count as its gap or not
    assert errors[:, 1].max() <= 1


@pytest.mark.parametrize(("sounds", "lead"), [(0, 0), (5, 5), (LONGEST_LEAD, LONGEST_LEAD), (LONGEST_LEAD + 1, 0)])
def test_a_word_begins_with_the_sound_after_silence(sounds: int, lead: int) -> None:
    said = [1] * 10 + [letters("x")[0]] * sounds + letters("dog") + [1] * 20  # "x" is misheard
    quiet = np.array([True] * 10 + [False] * (sounds + 3) + [True] * 20)
    made = search(["dog"])
    found = made.feed(frames(said), quiet) + made.finish()
    assert spans(found) == [(10 + sounds - lead, 10 + sounds + 3)]
    assert found[0].score > -0.1  # of its letters alone


def test_sound_before_a_word_is_not_its_own_where_another_word_ends_in_it() -> None:
    said = [1] * 5 + letters("cat") + [0] * 3 + letters("dog") + [1] * 20
    quiet = np.array([True] * 5 + [False] * 9 + [True] * 20)
    made = search(["cat", "dog"])
    assert spans(made.feed(frames(said), quiet) + made.finish()) == [(5, 11), (11, 14)]


@pytest.mark.parametrize("late", [0, 2])
def test_a_model_that_is_late_moves_words_in_a_phrase_but_not_after_silence(late: int) -> None:
    said = [1] * 5 + letters("cat") * 2 + [0] * 3 + letters("dog") + [1] * 6 + letters("cow") + [1] * 20
    said[5:11] = [letter for letter in letters("cat") for _ in range(2)]
    quiet = np.array([True] * 5 + [False] * 12 + [True] * 6 + [False] * 3 + [True] * 20)
    made = WordSearch(SYMBOLS, LAG, BLOCKS, late)
    for word in ("cat", "dog", "cow"):
        made.add(letters(word))
    found = made.feed(frames(said), quiet) + made.finish()
    assert spans(found) == [(5, 14 - late), (14 - late, 17), (23, 26)]


def test_a_word_that_is_shorter_than_the_model_is_late_has_a_frame() -> None:
    said = [1] * 5 + letters("a") + letters("dog") + [1] * 20
    made = WordSearch(SYMBOLS, LAG, BLOCKS, late=3)
    for word in ("a", "dog"):
        made.add(letters(word))
    found = made.feed(frames(said), np.array([True] * 5 + [False] * 4 + [True] * 20)) + made.finish()
    assert spans(found) == [(5, 6), (6, 9)]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.lists(st.integers(0, 10_000), max_size=12))
def test_how_the_audio_is_cut_changes_nothing(seed: int, cuts: list[int]) -> None:
    said = say(TEXT, seed, noise=2.0)
    made, found = search(TEXT), []
    edges = [0, *sorted(cut % len(said.quiet) for cut in cuts), len(said.quiet)]
    for start, stop in pairwise(edges):
        found += made.feed(said.log_probs[start:stop], said.quiet[start:stop])
    assert found + made.finish() == whole(TEXT, said)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 30))
def test_text_that_is_known_only_when_its_audio_comes_changes_nothing(seed: int, early: int) -> None:
    said = say(TEXT, seed)
    made, found, known = search([], closed=False), [], 0
    for frame in range(len(said.quiet)):
        while known < len(TEXT) and frame >= said.words[known][0] - early:
            made.add(letters(TEXT[known]))
            known += 1
        found += made.feed(said.log_probs[frame : frame + 1], said.quiet[frame : frame + 1])
    made.close()
    assert spans(found + made.finish()) == spans(whole(TEXT, said))


def test_a_word_is_decided_soon_after_its_end() -> None:
    said = say(TEXT, 3)
    made = search(TEXT)
    for frame in range(len(said.quiet)):
        for word in made.feed(said.log_probs[frame : frame + 1], said.quiet[frame : frame + 1]):
            assert frame - word.end <= LAG + BLOCKS.size


def test_a_word_that_is_left_out_has_no_length() -> None:
    spoken = [word for word in TEXT if word != "worst"]
    found = whole(TEXT, say(spoken, 1))
    assert [word.number for word in found] == list(range(len(TEXT)))
    assert [TEXT[word.number] for word in found if not word.is_heard] == ["worst"]
    others = np.array(spans([word for word in found if word.is_heard]))
    assert np.abs(others - np.array(spans(whole(spoken, say(spoken, 1))))).max() <= 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("extra", ["was the best", "um"])
def test_what_is_said_twice_or_is_not_in_the_text_moves_at_most_the_next_word(extra: str, seed: int) -> None:
    said = say(TEXT[:4] + extra.split() + TEXT[4:], seed)
    found = whole(TEXT, said)
    assert [word.number for word in found] == list(range(len(TEXT)))
    expected = said.words[:4] + said.words[4 + len(extra.split()) :]
    moved = [index for index, word in enumerate(found) if abs(word.start - expected[index][0]) > 2]
    assert moved in ([], [4])


def test_speech_that_ends_early_leaves_the_rest_unheard() -> None:
    found = whole(TEXT, say(TEXT[:5], 4))
    assert [word.is_heard for word in found] == [True] * 5 + [False] * (len(TEXT) - 5)
    assert len({word.start for word in found[5:]}) == 1


def test_no_audio_leaves_all_words_unheard() -> None:
    made = search(TEXT)
    assert [word.is_heard for word in made.finish()] == [False] * len(TEXT)


def test_the_text_is_said_when_its_last_word_is_decided() -> None:
    said = say(TEXT, 5)
    made = search(TEXT, closed=False)
    made.feed(said.log_probs, said.quiet)
    assert made.said_at is None  # more words may come
    made.close()
    assert made.said_at == pytest.approx(said.words[-1][1], abs=1)


def test_a_word_sounds_on_for_a_while_where_no_silence_follows() -> None:
    labels = [1] * 4 + letters("a") * 3 + [0] * 40
    made = search(["a"])
    (word,) = made.feed(frames(labels), np.zeros(len(labels), bool)) + made.finish()
    assert (word.start, word.end) == (4, 4 + 3 + LONGEST_TAIL)


def test_a_word_longer_than_the_window_is_found() -> None:
    long = "abcdefgh" * (WINDOW // 8)
    found = whole(["so", long, "it", "is"], say(["so", long, "it", "is"], 6))
    assert all(word.is_heard for word in found)


def test_time_and_memory_do_not_grow_with_the_text() -> None:
    words = TEXT * 40
    said = say(words, 7)
    made = search(words)
    made.feed(said.log_probs[:1000], said.quiet[:1000])
    began_s = time.thread_time()
    made.feed(said.log_probs[1000:6000], said.quiet[1000:6000])
    assert (time.thread_time() - began_s) / 100 < 0.02  # 5000 frames are 100 s of speech
    assert len(made._steps) <= LAG + BLOCKS.size
