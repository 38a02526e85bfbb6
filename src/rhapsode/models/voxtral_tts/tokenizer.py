"""Encodes text with a checkpoint's `tekken.json`: byte pairs with ranks. Control tokens of users are plain text.

Pairs are merged by the rank of the token that they make, the leftmost first. The `tokenizers` package takes a list of
merges, which cannot express that: such a list also orders different pairs that make the same token. So that package
only cuts text into pieces.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import lru_cache
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

from tokenizers import Regex, pre_tokenizers

from rhapsode.checkpoints.folder import read_json, section
from rhapsode.errors import CheckpointError

FILE = "tekken.json"
REMEMBERED_PIECES = 65_536


class Tekken:
    """A tokenizer: `encode` for text, `special` for the control tokens of a prompt."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        content = read_json(self._path)
        config = section(content, "config", str(self._path))
        try:
            special_count = int(config["default_num_special_tokens"])
            self._ranks = _ranks(content["vocab"], int(config["default_vocab_size"]) - special_count)
            self._special = {str(one["token_str"]): int(one["rank"]) for one in content["special_tokens"]}
            self._cut = pre_tokenizers.Split(Regex(str(config["pattern"])), behavior="isolated")
            self.voice_tokens: Mapping[str, int] = dict(content.get("audio", {}).get("voice_num_audio_tokens", {}))
        except Exception as error:  # the package raises bare exceptions
            raise CheckpointError(f"{self._path} is not a tekken tokenizer: {error!r}") from None
        missing = [byte for byte in range(256) if bytes([byte]) not in self._ranks]
        if missing:
            raise CheckpointError(f"{self._path} has no token for the byte {missing[0]}.")
        self._first_id = special_count
        self._piece = lru_cache(REMEMBERED_PIECES)(self._encode_piece)

    def encode(self, text: str) -> list[int]:
        whole = text.encode("utf-8", "replace").decode("utf-8")  # JSON can bring a lone surrogate
        return [token for piece, _ in self._cut.pre_tokenize_str(whole) for token in self._piece(piece)]

    def special(self, name: str) -> int:
        """Returns the id of a control token."""
        if name not in self._special:
            raise CheckpointError(f"{self._path} has no special token '{name}'.")
        return self._special[name]

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        data = piece.encode("utf-8")
        known = self._ranks.get(data)
        ranks = [known] if known is not None else join_pairs(data, self._ranks)
        return tuple(self._first_id + rank for rank in ranks)


def read(folder: Path) -> Callable[[str], list[int]]:
    """Returns the tokenizer of a checkpoint, as a function."""
    return Tekken(folder).encode


def _ranks(vocab: list[Mapping[str, Any]], used: int) -> dict[bytes, int]:
    """Returns the rank of each token; only the first `used` ranks count."""
    return {b64decode(one["token_bytes"]): int(one["rank"]) for one in vocab if int(one["rank"]) < used}


def join_pairs(data: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """Merges neighbours, the lowest resulting rank first and the leftmost of equal ones first; returns ranks.

    A heap keeps this fast for a piece of any length: users choose the length.
    """
    ends = list(range(1, len(data) + 1))  # of the token that starts here
    before = list(range(-1, len(data) - 1))  # the start of the token before it
    pairs = [(rank, i, i + 2) for i in range(len(data) - 1) if (rank := ranks.get(data[i : i + 2])) is not None]
    heapify(pairs)
    while pairs:
        _, start, stop = heappop(pairs)
        middle = ends[start]
        if middle == 0 or middle >= stop or ends[middle] != stop:
            continue  # one of the two tokens is no longer there
        ends[start], ends[middle] = stop, 0
        if stop < len(data):
            before[stop] = start
            _push(pairs, data, ranks, start, ends[stop])
        if before[start] >= 0:
            _push(pairs, data, ranks, before[start], stop)
    starts = (i for i, end in enumerate(ends) if end)
    return [ranks[data[i : ends[i]]] for i in starts]


def _push(pairs: list[tuple[int, int, int]], data: bytes, ranks: Mapping[bytes, int], start: int, stop: int) -> None:
    rank = ranks.get(data[start:stop])
    if rank is not None:
        heappush(pairs, (rank, start, stop))
