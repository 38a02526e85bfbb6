"""Text becomes upstream's ids; what users write is never a mark; a piece of any length takes little time."""

import json
import random
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rhapsode.errors import CheckpointError
from rhapsode.models.voxtral_tts.tokenizer import Tekken, join_pairs
from tiny.tekken import LONGER, SPECIALS, VOCAB, tekken
from unit.voxtral_tts.asked import GOLDEN, INDEX


def written(folder: Path, change: Callable[[dict[str, Any]], Any] = lambda content: None) -> Path:
    content = tekken({"a": 3})
    change(content)
    (folder / "tekken.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("case", INDEX["tokens"], ids=lambda case: case["text"][:12])
def test_ids_are_upstreams(case: dict[str, Any]) -> None:
    assert Tekken(GOLDEN).encode(case["text"]) == case["ids"]


def naive(data: bytes, ranks: dict[bytes, int]) -> list[int]:
    parts = [data[i : i + 1] for i in range(len(data))]
    while True:
        made = [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
        if not made:
            return [ranks[part] for part in parts]
        _, i = min(made)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


def test_pairs_are_joined_by_rank_and_from_the_left() -> None:
    draw = random.Random(1)
    for _ in range(100):
        tokens = [b"a", b"b"]
        while len(tokens) < 12:
            made = draw.choice(tokens) + draw.choice(tokens)
            tokens += [made] if made not in tokens else []
        longer = tokens[2:]
        draw.shuffle(longer)
        ranks = {token: i for i, token in enumerate([b"a", b"b", *longer])}
        data = bytes(draw.choice(b"ab") for _ in range(draw.randint(1, 24)))
        assert join_pairs(data, ranks) == naive(data, ranks)


def test_a_long_word_takes_no_longer_than_its_length_deserves() -> None:
    tokenizer, began_s = Tekken(GOLDEN), time.monotonic()
    assert len(tokenizer.encode("x" * 20_000)) == 20_000
    assert time.monotonic() - began_s < 5


def test_a_whole_piece_comes_before_its_pairs(tmp_path: Path) -> None:
    tokenizer = Tekken(written(tmp_path))
    assert tokenizer.encode(" the") == [SPECIALS + 256 + LONGER.index(b" the")]
    assert len(tokenizer.encode("never used")) > 1  # its rank is past the vocabulary's size
    assert max(tokenizer.encode("the loing er never used")) < VOCAB


def test_marks_that_users_write_are_text(tmp_path: Path) -> None:
    tokenizer = Tekken(written(tmp_path))
    for mark in ("[AUDIO]", "<s>", "[BEGIN_AUDIO]", "[REPEAT_AUDIO_TEXT]"):
        assert len(tokenizer.encode(mark)) > 1
        assert min(tokenizer.encode(mark)) >= SPECIALS > tokenizer.special(mark)


def test_a_lone_surrogate_is_a_question_mark(tmp_path: Path) -> None:
    tokenizer = Tekken(written(tmp_path))
    assert tokenizer.encode("\ud800") == tokenizer.encode("?")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content.pop("config"), "'config' is missing"),
        (lambda content: content.pop("special_tokens"), "special_tokens"),
        (lambda content: content["config"].update(pattern="(("), "not a tekken tokenizer"),
        (lambda content: content["vocab"][0].pop("token_bytes"), "token_bytes"),
        (lambda content: content["vocab"].pop(65), "the byte 65"),
    ],
)
def test_a_broken_tokenizer_says_what_is_wrong(tmp_path: Path, change: Callable, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        Tekken(written(tmp_path, change))


def test_a_mark_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'\[VIDEO\]'"):
        Tekken(written(tmp_path)).special("[VIDEO]")
