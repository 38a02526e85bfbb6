"""Reads the vocabulary of any kind of tokenizer file: the bytes that each id stands for."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.folder import read_json
from rhapsode.checkpoints.sentencepiece import SPACE, SentencePiece
from rhapsode.errors import CheckpointError

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def read_pieces(folder: Path) -> Mapping[int, bytes]:
    """Returns the bytes of every id, from whichever tokenizer file the folder holds."""
    if (folder / "tokenizer.json").is_file():
        return _from_tokenizer_json(read_json(folder / "tokenizer.json"))
    if (folder / "vocab.json").is_file():
        return {number: _from_byte_level(token) for token, number in read_json(folder / "vocab.json").items()}
    if (folder / "tekken.json").is_file():
        return _from_tekken(read_json(folder / "tekken.json"))
    if (folder / "tokenizer.model").is_file():
        return {i: _from_marked(piece) for i, piece in enumerate(SentencePiece(folder / "tokenizer.model").pieces)}
    raise CheckpointError(f"{folder} holds no tokenizer file that is known here.")


def _from_tokenizer_json(content: Mapping[str, Any]) -> dict[int, bytes]:
    vocab = content.get("model", {}).get("vocab", {})
    numbered = vocab.items() if isinstance(vocab, dict) else ((one[0], i) for i, one in enumerate(vocab))
    is_byte_level = "ByteLevel" in str(content.get("pre_tokenizer")) + str(content.get("decoder"))
    read = _from_byte_level if is_byte_level else _from_marked
    return {number: read(token) for token, number in numbered}


def _from_tekken(content: Mapping[str, Any]) -> dict[int, bytes]:
    first = int(content.get("config", {}).get("default_num_special_tokens", 0))
    return {first + int(one["rank"]): b64decode(one["token_bytes"]) for one in content.get("vocab", ())}


def _from_marked(piece: str) -> bytes:
    """Returns the bytes of a piece in which U+2581 stands for a space, and `<0x0A>` for a byte."""
    found = _BYTE.fullmatch(piece)
    return bytes([int(found[1], 16)]) if found else piece.replace(SPACE, " ").encode("utf-8")


def _from_byte_level(token: str) -> bytes:
    """Returns the bytes of a token in which every byte is written as a visible character."""
    return b"".join(bytes([_BYTES[char]]) if char in _BYTES else char.encode("utf-8") for char in token)


def _visible_bytes() -> dict[str, int]:
    """Returns the byte of each character of the byte-level alphabet: printable ones stand for themselves, the other
    bytes follow from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES = _visible_bytes()
