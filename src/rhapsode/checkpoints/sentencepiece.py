"""Reads SentencePiece's `tokenizer.model` files of type BPE, and encodes text without the sentencepiece package.

The file is a protobuf message. Only the fields that BPE needs are read.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.charsmap import Charsmap
from rhapsode.errors import CheckpointError

SPACE = "\u2581"
"""The character that stands for a space inside pieces."""

_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of the model
_MODEL_TYPE, _BYTE_FALLBACK, _BPE = 3, 35, 2  # fields of the trainer's part, and the type we support
_CHARSMAP, _ADD_PREFIX, _SQUEEZE = 2, 3, 4  # fields of the normalizer's part
_NORMAL, _UNKNOWN, _USER_DEFINED, _BYTE = 1, 2, 4, 6  # types of a piece


@dataclass(frozen=True)
class VocabularyPiece:
    text: str
    score: float
    kind: int


class SentencePiece:
    """A BPE model of SentencePiece."""

    def __init__(self, file: Path) -> None:
        try:
            content = list(_fields(file.read_bytes()))
            pieces = [_piece(value) for number, value in content if number == _PIECE]
            trainer, normalizer = (dict(_fields(_message(content, part))) for part in (_TRAINER, _NORMALIZER))
            self._charsmap = Charsmap(normalizer[_CHARSMAP]) if normalizer.get(_CHARSMAP) else None
        except FileNotFoundError:
            raise CheckpointError(f"{file.parent} holds no {file.name}: its tokenizer is missing.") from None
        except (OSError, ValueError, LookupError, struct.error, TypeError):
            raise CheckpointError(f"{file} is not a SentencePiece model.") from None
        if trainer.get(_MODEL_TYPE, 1) != _BPE:
            raise CheckpointError(f"{file} is not a BPE model of SentencePiece; other types are not supported.")
        self.size = len(pieces)
        self.pieces = [piece.text for piece in pieces]
        self._add_prefix, self._squeeze = bool(normalizer.get(_ADD_PREFIX, 1)), bool(normalizer.get(_SQUEEZE, 1))
        self._scores = {p.text: (p.score, i) for i, p in enumerate(pieces) if p.kind == _NORMAL}
        self._symbols = {p.text: i for i, p in enumerate(pieces) if p.kind == _USER_DEFINED}
        self._unknown = next((i for i, p in enumerate(pieces) if p.kind == _UNKNOWN), 0)
        bytes_ = {int(p.text[3:5], 16): i for i, p in enumerate(pieces) if p.kind == _BYTE}
        self._bytes = bytes_ if trainer.get(_BYTE_FALLBACK) else {}

    def encode(self, text: str, symbols: bool = False) -> list[int]:
        """Returns the ids of a text. With `symbols`, the model's control symbols in it are recognised."""
        whole = text.encode("utf-8", "replace").decode("utf-8")  # JSON can bring a lone surrogate
        ids: list[int] = []
        for part in self._parts(self._normalized(whole), self._symbols if symbols else {}):
            if symbols and part in self._symbols:
                ids.append(self._symbols[part])
            else:
                ids += self._merged(part)
        return ids

    def _normalized(self, text: str) -> str:
        if self._charsmap is not None:
            text = self._charsmap.apply(text)
        if self._squeeze:
            text = " ".join(part for part in text.split(" ") if part)
        if not text:
            return ""
        return (SPACE if self._add_prefix else "") + text.replace(" ", SPACE)

    @staticmethod
    def _parts(text: str, symbols: Mapping[str, int]) -> Iterator[str]:
        """Yields control symbols and the runs of text between them; at one place, the longest symbol is taken."""
        longest_first = sorted(symbols, key=len, reverse=True)
        start = at = 0
        while symbols and at < len(text):
            found = next((symbol for symbol in longest_first if text.startswith(symbol, at)), None)
            if found is None:
                at += 1
                continue
            if start < at:
                yield text[start:at]
            yield found
            start = at = at + len(found)
        if start < len(text):
            yield text[start:]

    def _merged(self, text: str) -> list[int]:
        """Returns the ids of a text. Neighbours that make a piece are merged: best score first, then the leftmost."""
        parts: list[str] = list(text)
        after, before = list(range(1, len(parts) + 1)), list(range(-1, len(parts) - 1))
        agenda: list[tuple[float, int, str]] = []

        def propose(left: int) -> None:
            right = after[left]
            if right < len(parts):
                joined = parts[left] + parts[right]
                if joined in self._scores:
                    heapq.heappush(agenda, (-self._scores[joined][0], left, joined))

        for i in range(len(parts)):
            propose(i)
        while agenda:
            _, left, joined = heapq.heappop(agenda)
            right = after[left]
            if not parts[left] or right >= len(parts) or parts[left] + parts[right] != joined:
                continue  # one of the two has been joined to something else
            parts[left], parts[right] = joined, ""
            after[left] = after[right]
            if after[right] < len(parts):
                before[after[right]] = left
            if before[left] >= 0:
                propose(before[left])
            propose(left)
        return [number for part in parts if part for number in self._ids(part)]

    def _ids(self, part: str) -> list[int]:
        if part in self._scores:
            return [self._scores[part][1]]
        return [self._bytes.get(byte, self._unknown) for byte in part.encode()] if self._bytes else [self._unknown]


# --- protobuf ---


def _message(content: list[tuple[int, Any]], field: int) -> bytes:
    return b"".join(value for number, value in content if number == field)


def _piece(data: bytes) -> VocabularyPiece:
    fields = dict(_fields(data))
    (score,) = struct.unpack("<f", fields.get(2, b"\0\0\0\0"))
    return VocabularyPiece(fields[1].decode(), score, fields.get(3, _NORMAL))


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the number and the value of each field of a message; a value is an integer or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        length, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        if at + length > len(data):
            raise ValueError("a field ends after its message")
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
