"""Text in pieces: however it is cut, its tokens are those of the whole."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.checkpoints import qwen2_tokenizer as tokenizer
from rhapsode.models.qwen3_tts.feed import ROLE, ROLE_TOKENS, WordFeed
from tiny import qwen_tokenizer

END = 9999
PIECES = [
    "Hello",
    " the",
    " ",
    "  ",
    "\n",
    "\n\n",
    "sing",
    "ing",
    "it's",
    "3.",
    "，",
    "你好",
    "é",
    "́",
    " !",
    "\t",
    "—",
    "…",
]


@pytest.fixture(scope="module")
def encode(tmp_path_factory: pytest.TempPathFactory) -> tokenizer.Tokenize:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    qwen_tokenizer.write(folder)
    return tokenizer.read(folder)


def whole(encode: tokenizer.Tokenize, text: str) -> list[int]:
    return encode(ROLE + text)[ROLE_TOKENS:]


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14))
@settings(max_examples=300)
def test_the_tokens_are_those_of_the_whole_text(encode: tokenizer.Tokenize, pieces: list[str]) -> None:
    feed = WordFeed(encode, END)
    tokens = [token for piece in pieces for token in feed.push(piece)]
    assert feed.steps() == len(tokens)
    tokens += feed.close()
    text = "".join(pieces).lstrip()
    assert tokens == ([*whole(encode, text), END] if text else [])
    assert feed.steps() is None


def test_a_word_is_certain_once_the_next_has_begun(encode: tokenizer.Tokenize) -> None:
    feed = WordFeed(encode, END)
    assert feed.push("Hel") == ()
    assert feed.push("lo") == ()
    assert feed.push(" ") == ()
    assert list(feed.push("y")) == whole(encode, "Hello")
    assert feed.steps() == len(whole(encode, "Hello"))
    assert feed.push("ou") == ()
    assert list(feed.close()) == [*encode(" you"), END]


def test_a_text_that_never_came_has_no_end_either(encode: tokenizer.Tokenize) -> None:
    feed = WordFeed(encode, END)
    feed.push("  \n ")
    assert feed.close() == ()


def test_a_closed_feed_takes_nothing_more(encode: tokenizer.Tokenize) -> None:
    feed = WordFeed(encode, END)
    feed.push("One two")
    feed.close()
    assert feed.push(" three four") == ()
    assert feed.close() == ()


def test_tokens_in_the_prompt_are_good_for_no_step(encode: tokenizer.Tokenize) -> None:
    feed = WordFeed(encode, END)
    known = len(feed.push("One two"))
    feed.use(known + 2)
    feed.use(known + 2)  # a stage that is tried again says so again
    assert feed.steps() == 0
    more = len(feed.push(" three four"))
    assert feed.steps() == more - 2


def test_a_long_text_ends_with_a_sentence_and_the_rest_is_kept(encode: tokenizer.Tokenize) -> None:
    feed = WordFeed(encode, END, longest=40)
    assert feed.push("One. Two three four five six. Seven ")[-1] == END
    assert feed.steps() is None  # this part is whole
    assert feed.push("eight.") == ()
    assert feed.close() == ()
    assert feed.rest() == ("Seven eight.", True)


def test_a_sentence_that_never_ends_is_cut_between_words(encode: tokenizer.Tokenize) -> None:
    feed = WordFeed(encode, END, longest=20)
    tokens = feed.push("one two three four five six seven ")
    assert list(tokens) == [*encode(f"{ROLE}one two three four")[ROLE_TOKENS:], END]
    assert feed.rest() == ("five six seven ", False)


def test_the_parts_of_a_text_are_all_of_it(encode: tokenizer.Tokenize) -> None:
    text, parts = "Here is one. Here is another, and it is longer than that! And then? " * 4, []
    closed = False
    while not closed:
        feed = WordFeed(encode, END, longest=60)
        tokens = [*feed.push(text), *feed.close()]
        assert tokens[-1] == END
        rest = feed.rest()
        parts.append(text.removesuffix(rest.text).rstrip() if rest else text)
        assert len(parts[-1]) <= 60
        assert tokens[:-1] == encode(ROLE + parts[-1])[ROLE_TOKENS:]
        text, closed = (rest.text, False) if rest else ("", True)
    assert " ".join(parts) == "Here is one. Here is another, and it is longer than that! And then? " * 4


def test_a_short_text_has_no_rest(encode: tokenizer.Tokenize) -> None:
    feed = WordFeed(encode, END, longest=60)
    assert [*feed.push("Hello there."), *feed.close()][-1] == END
    assert feed.rest() is None
