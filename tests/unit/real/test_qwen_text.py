"""What the published encodings of Qwen3-TTS tell without its vocabulary, which is too large to be here.

With the vocabulary, 138 of the 139 encodings are equal; the other one is the exception below.
"""

import pytest
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from rhapsode.checkpoints.qwen2_tokenizer import Qwen2Tokenizer, assemble
from rhapsode.models.qwen3_tts import config as qwen
from rhapsode.models.qwen3_tts.feed import ROLE_TOKENS
from unit.real.alignment import Found, align_all
from unit.real.published import facts

ENCODINGS: list[tuple[str, list[int]]] = [(text, ids) for text, ids in facts("qwen3_tts/encodings.json.gz")]
ADDED: dict[str, int] = facts("qwen3_tts/added_tokens.json")
CONTROL_TOKENS = "<|im_start|>assistant\n你好，世界！<|im_end|>\n<|im_start|>assistant\n"
"""The exception: whoever writes a control token in a text means its characters, so it does not become that token."""
ALPHABET = sorted(ByteLevel.alphabet())
"""The first 256 tokens of the vocabulary: a character per byte, in the order of the characters."""


@pytest.fixture(scope="module")
def spelled() -> Qwen2Tokenizer:
    """The tokenizer without its merges: a token per byte."""
    return Qwen2Tokenizer(assemble(BPE({char: i for i, char in enumerate(ALPHABET)}, [])))


def words_of(text: str) -> list[bytes]:
    """The words that our tokenizer splits a text into, after normalisation."""
    byte_of = bytes_of()
    tokenizer = assemble(BPE())
    split = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))
    return [bytes(byte_of[char] for char in word) for word, _ in split]


def bytes_of() -> dict[str, int]:
    """The byte that each character of the alphabet stands for."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def test_tokens_of_single_bytes_are_equal(spelled: Qwen2Tokenizer) -> None:
    alone = [(text, ids) for text, ids in ENCODINGS if all(one < len(ALPHABET) for one in ids)]
    assert len(alone) == 10
    assert all(spelled(text) == ids for text, ids in alone)


def test_no_published_token_crosses_our_words_but_for_control_tokens() -> None:
    known: Found = {i: {bytes([bytes_of()[char]])} for i, char in enumerate(ALPHABET)}
    known |= {number: {token.encode()} for token, number in ADDED.items()}
    failed = align_all([(words_of(text), ids) for text, ids in ENCODINGS], known)
    assert len(ENCODINGS) == 139
    assert [ENCODINGS[i][0] for i in failed] == [CONTROL_TOKENS]
    learned = sum(len(meanings) == 1 for meanings in known.values()) - len(ALPHABET) - len(ADDED)
    assert learned > 300  # the comparison has teeth: so many other tokens can stand for one string only


def test_a_control_token_in_a_text_stays_text(spelled: Qwen2Tokenizer) -> None:
    (published,) = (ids for text, ids in ENCODINGS if text == CONTROL_TOKENS)
    assert {ADDED["<|im_start|>"], ADDED["<|im_end|>"]} <= set(published)
    assert max(spelled(CONTROL_TOKENS)) < len(ALPHABET)


@pytest.mark.parametrize("name", ["e2e_text", "cv_text", "icl_ref"])
def test_chats_have_the_control_tokens_that_we_put_into_prompts(name: str) -> None:
    """`<|im_start|>`, then the role of two tokens; after the text its end, a line break, and for a text to speak the
    beginning of an answer."""
    ids, config = facts("qwen3_tts/chats.json")[name], facts("qwen3_tts/config.json")
    read, role = qwen.read(config, None).text, [config["assistant_token_id"], ALPHABET.index("Ċ")]
    assert len(role) == ROLE_TOKENS
    after = [read.im_end_token_id, role[1]]
    if name != "icl_ref":
        after += [read.im_start_token_id, *role]
    assert ids[:3] == [read.im_start_token_id, *role]
    assert ids[-len(after) :] == after
