"""A small BPE model of SentencePiece: bytes, control symbols, and texts that become one token each."""

import struct
from collections.abc import Sequence
from pathlib import Path

NORMAL, UNKNOWN, USER_DEFINED, BYTE = 1, 2, 4, 6
SPACE = "\u2581"


def write(path: Path, texts: Sequence[str] = (), symbols: Sequence[str] = ()) -> int:
    """Writes the model and returns the number of its pieces: the symbols have the first ids after 0."""
    pieces = [("<unk>", 0.0, UNKNOWN), *((symbol, 0.0, USER_DEFINED) for symbol in symbols)]
    pieces += [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
    # Each text grows from the left: all its beginnings are pieces.
    shown = [SPACE + " ".join(text.split()).replace(" ", SPACE) for text in texts]
    grown = dict.fromkeys(text[:end] for text in shown for end in range(1, len(text) + 1))
    pieces += [(piece, -float(i), NORMAL) for i, piece in enumerate(grown)]
    write_pieces(path, pieces)
    return len(pieces)


def write_pieces(path: Path, pieces: Sequence[tuple[str, float, int]], normalizer: bytes = b"") -> None:
    """Writes a model of these pieces: their texts, scores and kinds. `normalizer` is that part of another model."""
    model = b"".join(field(1, field(1, t.encode()) + number32(2, s) + number(3, k)) for t, s, k in pieces)
    settings = field(2, number(3, 2) + number(35, 1))  # BPE, with bytes for unknown characters
    path.write_bytes(model + settings + (field(3, normalizer) if normalizer else b""))


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes((low | 128,)) + varint(rest) if rest else bytes((low,))


def field(index: int, content: bytes) -> bytes:
    return varint(index << 3 | 2) + varint(len(content)) + content


def number(index: int, value: int) -> bytes:
    return varint(index << 3) + varint(value)


def number32(index: int, value: float) -> bytes:
    return varint(index << 3 | 5) + struct.pack("<f", value)
