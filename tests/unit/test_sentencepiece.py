"""SentencePiece's BPE models, read without that package."""

from pathlib import Path

import pytest

from rhapsode.checkpoints.sentencepiece import SentencePiece
from rhapsode.errors import CheckpointError
from tiny import sentencepiece

GOLDEN = Path(__file__).parents[1] / "golden" / "moss_tts_nano" / "checkpoint" / "tokenizer.model"
FIRST_BYTE = 15


@pytest.fixture(scope="module")
def model() -> SentencePiece:
    """Of the golden checkpoint: 360 pieces, the usual normalisation, bytes for what has no piece."""
    return SentencePiece(GOLDEN)


def test_pieces_are_joined_best_score_first(model: SentencePiece) -> None:
    # "the" has the pieces ▁t, he and ▁the; "ent" is joined from en and t before t can begin a word.
    assert model.encode("the") == [273]
    assert len(model.encode("ent")) == 2


@pytest.mark.parametrize("text", ["", " ", "\n", " \n\t "])
def test_nothing_has_no_tokens(model: SentencePiece, text: str) -> None:
    assert model.encode(text) == []


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("the  quick   fox", "the quick fox"),
        ("  the quick fox ", "the quick fox"),
        ("the\nquick\tfox", "the quick fox"),
        ("ｔｈｅ", "the"),
        ("ﬁsh", "fish"),
        ("①", "1"),
        ("the\u200bfox", "the fox"),
        ("e\u0301", "é"),
    ],
)
def test_text_is_normalised_first(model: SentencePiece, text: str, same: str) -> None:
    assert model.encode(text) == model.encode(same)


def test_a_character_without_a_piece_is_its_bytes(model: SentencePiece) -> None:
    assert model.encode("😀")[1:] == [FIRST_BYTE + byte for byte in "😀".encode()]


def test_control_symbols_are_symbols_only_where_asked_for(model: SentencePiece) -> None:
    assert 4 in model.encode("a <|im_start|>", symbols=True)
    assert all(token >= FIRST_BYTE for token in model.encode("a <|im_start|>"))


def test_the_longest_symbol_at_a_place_is_taken(tmp_path: Path) -> None:
    sentencepiece.write(tmp_path / "t.model", ["a"], ["<x>", "<x><y>"])
    found = SentencePiece(tmp_path / "t.model")
    assert found.encode("a<x><y><x>", symbols=True)[1:] == [2, 1]


def test_a_text_that_is_one_piece_is_one_token(tmp_path: Path) -> None:
    size = sentencepiece.write(tmp_path / "t.model", ["hello there"])
    found = SentencePiece(tmp_path / "t.model")
    assert found.size == size
    assert found.encode("hello there") == [size - 1]


@pytest.mark.parametrize("data", [b"", b"\x0a\x7f", b"not a model", b"\xff" * 64])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "t.model").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"t\.model is not a"):
        SentencePiece(tmp_path / "t.model")
