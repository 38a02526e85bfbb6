"""Texts as segments of tokens: the same whole and in pieces, cut at sentences."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.errors import CheckpointError
from rhapsode.models.cosyvoice3.special_tokens import CONTROL, SPECIAL_TOKENS
from rhapsode.models.cosyvoice3.text import CosyText
from rhapsode.models.cosyvoice3.tokenizer import CosyTokenizer, special_ids

TEXTS = (
    "Hello there. One two [breath] three,  four\n five!  ",
    "你好，世界。今天天气很好！我们去散步，好吗？好的。",
    "It's [laughter]<strong>all</strong> good; isn't it? 12 3.5 [j][ǐ] (yes) _a_，b",
)


@pytest.fixture(scope="session")
def encode(golden_checkpoint: Path) -> CosyTokenizer:
    return CosyTokenizer(golden_checkpoint / "CosyVoice-BlankEN", 604)


def segments_of(text: CosyText) -> list[list[int]]:
    assert all(segment.complete for segment in text.segments)
    return [segment.tokens for segment in text.segments if segment.tokens]


def whole(encode: CosyTokenizer, text: str, most: int) -> list[list[int]]:
    made = CosyText(encode, most)
    made.push(text)
    made.close()
    return segments_of(made)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_fits_has_the_tokens_of_the_tokenizer(encode: CosyTokenizer, text: str) -> None:
    assert whole(encode, text, 1000) == [encode(" ".join(text.split()))]


@given(data=st.data())
def test_pieces_have_the_tokens_of_the_whole(encode: CosyTokenizer, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    most = data.draw(st.sampled_from([12, 30, 1000]))
    made, start = CosyText(encode, most), 0
    while start < len(text):
        stop = start + data.draw(st.integers(1, 9))
        made.push(text[start:stop])
        start = stop
    made.close()
    assert segments_of(made) == whole(encode, text, most)


def test_long_texts_are_cut_at_sentences(encode: CosyTokenizer) -> None:
    sentences = ["The rain had stopped.", "The street was quiet!", "Then a voice spoke, and the rain began again."]
    one, two = (encode(sentence) for sentence in sentences[:2])
    most = len(one) + 5
    assert whole(encode, " ".join(sentences[:2]), most) == [one, two]
    cut = whole(encode, " ".join(sentences), most)
    assert cut[:2] == [one, two]
    assert max(map(len, cut)) <= most
    assert len(cut) > 3
    chinese = whole(encode, "今天天气很好。我们去散步。好的。", len(encode("今天天气很好。")) + 2)
    assert chinese[0] == encode("今天天气很好。")


def test_a_word_without_end_is_cut(encode: CosyTokenizer) -> None:
    cut = whole(encode, "x" * 100, 30)
    assert [len(segment) for segment in cut] == [30, 30, 30, 10]


# --- tokens ---


def test_there_are_281_special_tokens_in_upstreams_order(golden_checkpoint: Path) -> None:
    assert len(SPECIAL_TOKENS) == len(set(SPECIAL_TOKENS)) == 281
    ids = special_ids(golden_checkpoint / "CosyVoice-BlankEN")
    assert [ids[token] for token in SPECIAL_TOKENS] == list(range(316, 316 + 281))
    assert ids["<|endofprompt|>"] == 319


def test_tags_are_tokens_and_control_tokens_are_characters(encode: CosyTokenizer) -> None:
    for tag in ("[breath]", "<laughter>", "</strong>", "[AA1]", "[j]", "[ǐ]"):
        assert len(encode(tag)) == 1
    special = set(special_ids_of(encode).values())
    for control in CONTROL:
        ids = encode(f"Hi {control} there")
        assert len(ids) > 10
        assert not special & set(ids)
    assert not special & set(encode("[nothing] [BREATH] <|breath|>"))


def special_ids_of(encode: CosyTokenizer) -> dict[str, int]:
    return encode._special


def test_a_model_with_fewer_tokens_than_its_tokenizer_is_an_error(golden_checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match="597 tokens"):
        CosyTokenizer(golden_checkpoint, 596)
