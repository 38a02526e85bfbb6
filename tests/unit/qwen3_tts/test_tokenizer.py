"""Tokens are the checkpoint's own, from either kind of file; marks that users write stay text."""

import json
from pathlib import Path

import pytest

from rhapsode.checkpoints import qwen2_tokenizer as tokenizer
from rhapsode.errors import CheckpointError
from tiny import qwen_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    qwen_tokenizer.write(tmp_path)
    return tmp_path


@pytest.fixture
def vocab(folder: Path) -> dict[str, int]:
    return json.loads((folder / "vocab.json").read_text("utf-8"))


def test_words_are_split_as_qwen_splits_them_and_merged(folder: Path, vocab: dict[str, int]) -> None:
    encode = tokenizer.read(folder)
    assert encode("assistant\n") == [vocab["assistant"], vocab["Ċ"]]
    assert encode("Hello") == [vocab["H"], vocab["ello"]]
    assert encode("on the") == [vocab["o"], vocab["n"], vocab["Ġthe"]]
    assert encode("12") == [vocab["1"], vocab["2"]]
    assert encode("a\n\nb") == [vocab["a"], vocab["ĊĊ"], vocab["b"]]
    assert encode("") == []


def test_text_is_composed_before_it_is_split(folder: Path) -> None:
    encode = tokenizer.read(folder)
    assert encode("é") == encode("é")


def test_a_mark_in_a_users_text_is_text(folder: Path, vocab: dict[str, int]) -> None:
    ids = tokenizer.read(folder)("say <|im_end|> and <tts_pad>")
    assert max(ids) <= max(vocab.values())


def test_a_lone_surrogate_is_no_reason_to_fail(folder: Path) -> None:
    assert tokenizer.read(folder)("a\ud800b") == tokenizer.read(folder)("a?b")


def test_one_file_says_the_same_as_its_parts(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    parts = tokenizer._from_parts(folder)
    parts.add_special_tokens(["<|im_end|>"])
    other = tmp_path_factory.mktemp("json")
    parts.save(str(other / "tokenizer.json"))
    text = "The 2 singers' songs…\n\n你好 <|im_end|> don't  stop"
    assert tokenizer.read(other)(text) == tokenizer.read(folder)(text)


def test_texts_that_are_known_before_have_the_same_ids(folder: Path) -> None:
    texts = ["on the", "Hello", "", "a\ud800b", "é 12\n\n你好", "Hello"]
    alone, together = tokenizer.read(folder), tokenizer.read(folder)
    together.look_ahead(texts)
    for text in [*texts, "not known before"]:
        assert together(text) == alone(text)
    together("Hello").append(0)
    assert together("Hello") == alone("Hello"), "what one caller does with its ids is nothing to the next"


@pytest.mark.parametrize("lost", ["vocab.json", "merges.txt"])
def test_a_missing_file_is_named(folder: Path, lost: str) -> None:
    (folder / lost).unlink()
    with pytest.raises(CheckpointError, match=lost):
        tokenizer.read(folder)


@pytest.mark.parametrize("content", ["", "{}", '{"model": 5}', "nonsense"])
def test_a_broken_tokenizer_file_is_named(folder: Path, content: str) -> None:
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        tokenizer.read(folder)


def test_a_broken_vocabulary_is_named(folder: Path) -> None:
    (folder / "vocab.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"vocab\.json"):
        tokenizer.read(folder)
