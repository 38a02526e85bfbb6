"""Writes a tokenizer for shapes without a vocabulary: a token per byte, and one each for `assistant` and `user`."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.folder import read_json

SPACE = "[SPACE]"
"""A token of its own for families whose tokenizer has one for a space."""
WORDS = ("assistant", "user")  # families split prompts at these, and expect one token each


def has_vocabulary(folder: Path) -> bool:
    """Whether a shape has a vocabulary with more than bytes in it."""
    if (folder / "tekken.json").is_file():
        return len(read_json(folder / "tekken.json").get("vocab", ())) > 256
    return (folder / "tokenizer.json").is_file() or (folder / "vocab.json").is_file()


def write(folder: Path) -> None:
    """Writes `tokenizer.json`, in the format of the `tokenizers` package, and `tokenizer.model`, in SentencePiece's."""
    (folder / "tokenizer.json").write_text(json.dumps(description()), encoding="utf-8")
    (folder / "tokenizer.model").write_bytes(sentencepiece_model())


def sentencepiece_model() -> bytes:
    """Returns a BPE model of SentencePiece that has no piece but the 256 bytes."""
    unknown, byte, bpe = 2, 6, 2
    pieces = [_piece("<unk>", unknown), *(_piece(f"<0x{number:02X}>", byte) for number in range(256))]
    byte_fallback = b"\x98\x02\x01"  # field 35
    return b"".join(_message(1, piece) for piece in pieces) + _message(2, bytes((3 << 3, bpe)) + byte_fallback)


def _piece(text: str, kind: int) -> bytes:
    return _message(1, text.encode()) + bytes((2 << 3 | 5,)) + struct.pack("<f", 0.0) + bytes((3 << 3, kind))


def _message(field: int, content: bytes) -> bytes:
    """Returns a protobuf field of fewer than 128 bytes."""
    return bytes((field << 3 | 2, len(content))) + content


def description() -> dict[str, Any]:
    symbols = _byte_symbols()
    vocab = {symbols[byte]: byte for byte in range(256)}
    merges: list[list[str]] = []
    for word in WORDS:
        joined, *rest = (symbols[byte] for byte in word.encode())
        for symbol in rest:
            if [joined, symbol] not in merges:
                merges.append([joined, symbol])
            joined += symbol
            vocab.setdefault(joined, len(vocab))
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": len(vocab), "content": SPACE, "special": True, **plain}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": merges,
        },
    }


def _byte_symbols() -> dict[int, str]:
    """Returns the printable character by which byte-level tokenizers represent each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(rest)}
