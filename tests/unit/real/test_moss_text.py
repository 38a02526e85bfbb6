"""MOSS-TTS-Nano's tokens and prompts with the published vocabulary equal those of other implementations."""

import hashlib
from typing import Any

import numpy as np
import pytest

from rhapsode.bench.engine.subject import SHAPES
from rhapsode.checkpoints.folder import read_config
from rhapsode.checkpoints.sentencepiece import SentencePiece, _fields
from rhapsode.models.moss_tts_nano.config import read
from rhapsode.models.moss_tts_nano.prompt import MossPromptBuilder, Script
from tiny import sentencepiece
from unit.real.published import FACTS, facts

NORMALIZED_ALIKE = FACTS.parent / "moss_tts_nano" / "checkpoint" / "tokenizer.model"
"""A small model with the same normalisation, `nmt_nfkc`: the published vocabulary comes without its table."""
ENCODINGS: list[tuple[str, list[int]]] = [(text, ids) for text, ids in facts("moss_tts_nano/encodings.json.gz")]
PROMPTS: list[dict[str, Any]] = facts("moss_tts_nano/prompts.json.gz")
ONNX_PROMPTS: list[dict[str, Any]] = facts("moss_tts_nano/onnx_prompts.json.gz")
SYMBOLS = range(4, 15)
"""The ids of control symbols. Whoever writes one in a text means its characters, so these texts differ on purpose."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePiece:
    file = tmp_path_factory.mktemp("moss") / "tokenizer.model"
    (normalizer,) = (value for number, value in _fields(NORMALIZED_ALIKE.read_bytes()) if number == 3)
    sentencepiece.write_pieces(file, facts("moss_tts_nano/vocabulary.json.gz"), normalizer)
    return SentencePiece(file)


@pytest.fixture(scope="module")
def builder(tokenizer: SentencePiece) -> MossPromptBuilder:
    return MossPromptBuilder(read(read_config(SHAPES / "moss-tts-nano")), tokenizer)


def test_the_vocabulary_is_whole(tokenizer: SentencePiece) -> None:
    assert tokenizer.size == 16_384
    assert len(ENCODINGS) == 109


def test_with_control_symbols_all_tokens_are_equal(tokenizer: SentencePiece) -> None:
    assert not [text for text, ids in ENCODINGS if tokenizer.encode(text, symbols=True) != ids]


def test_users_texts_differ_only_where_they_hold_control_symbols(tokenizer: SentencePiece) -> None:
    differ = [text for text, ids in ENCODINGS if tokenizer.encode(text) != ids]
    assert differ == [text for text, ids in ENCODINGS if set(ids) & set(SYMBOLS)]
    assert len(differ) == 23
    assert not any(set(tokenizer.encode(text)) & set(SYMBOLS) for text in differ)


def test_prompts_differ_only_where_the_text_holds_control_symbols(
    tokenizer: SentencePiece, builder: MossPromptBuilder
) -> None:
    def differ(symbols: bool) -> list[str]:
        return [one["text"] for one in PROMPTS if not same(builder.build(script(one, symbols)), one)]

    def script(one: dict[str, Any], symbols: bool) -> Script:
        ids, codes = tokenizer.encode(one["text"], symbols), codes_of(one)
        return Script(ids, reference=codes) if one["mode"] == "voice_clone" else Script(ids, continued=codes)

    assert len(PROMPTS) == 17
    assert differ(symbols=True) == []
    assert differ(symbols=False) == ["<|im_start|>user\nhi<|im_end|>"]


@pytest.mark.parametrize("one", ONNX_PROMPTS, ids=lambda one: one["name"])
def test_prompts_of_the_onnx_release_lack_the_first_token(one: dict[str, Any], builder: MossPromptBuilder) -> None:
    """Its manifest leaves out the first `<|im_start|>`. The release for torch, which we follow, has it."""
    rows = builder.build(Script(one["text"], reference=codes_of(one)))
    assert not same(rows, one)
    assert rows[0, 0] == facts("moss_tts_nano/config.json")["im_start_token_id"]
    assert same(rows[1:], one)


def codes_of(one: dict[str, Any]) -> np.ndarray | None:
    return None if one["codes"] is None else np.array(one["codes"], np.int64)


def same(rows: np.ndarray, one: dict[str, Any]) -> bool:
    return len(rows) == one["rows"] and hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest() == one["sha256"]
