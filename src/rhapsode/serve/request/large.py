"""Reads JSON objects to change them, in bounded time, and writes them again."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

from rhapsode.errors import RhapsodeError
from rhapsode.serve.request.shape import check_shape

LONG_BODY_BYTES = 2**20
LONG_STRING_BYTES = 2**14
SHOWN_BYTES = 64
"""The start of a long string that is read, such as `data:audio/wav`."""
MOST_STRINGS = 2**18
MOST_REST_BYTES = 2**23
"""Of a long body, without its long strings."""
PADDING = b"x" * 1024
"""Makes what stands for a long string too long to be taken for a name."""


def load_object(data: bytes) -> dict[str, Any] | None:
    """Returns a JSON object; None if it is none, or too complex to be read."""
    try:
        check_shape(data)
        value = json.loads(data)
    except (ValueError, RecursionError, RhapsodeError):
        return None
    return value if isinstance(value, dict) else None


class LargeObject:
    """A JSON object whose long strings, such as recordings, are neither parsed nor written again.

    In `fields` each of them is its start and a mark; `write` puts the rest in the place of the mark, as it came.
    """

    def __init__(self, data: bytes) -> None:
        self._mark = secrets.token_hex(16).encode()
        self._strings: list[memoryview] = []
        self._left = MOST_STRINGS
        rest = self._without_strings(data) if len(data) > LONG_BODY_BYTES else data
        self.fields = None if rest is None else load_object(rest)
        """None if it cannot be read."""

    @property
    def long_bytes(self) -> int:
        """How much stands aside."""
        return sum(map(len, self._strings))

    def write(self, fields: dict[str, Any]) -> bytes:
        """Returns fields as JSON. Half a surrogate pair stays one, which our own route refuses."""
        data = json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if not self._strings:
            return data
        view, at = memoryview(data), 0
        pieces: list[memoryview] = []
        for found in re.finditer(rb"%b_(\d+)_%b" % (self._mark, PADDING), data):
            pieces += [view[at : found.start()], self._strings[int(found[1])]]
            at = found.end()
        return b"".join([*pieces, view[at:]])

    def _without_strings(self, data: bytes) -> bytes | None:
        """Returns JSON with marks for its long strings; None if it has too many strings, or too much beside them."""
        if not json.detect_encoding(data).startswith("utf-8"):
            return None
        view, at, end = memoryview(data), 0, -1
        pieces: list[bytes | memoryview] = []
        while (start := data.find(b'"', end + 1)) >= 0:
            end = self._end_of(data, start + 1)
            if end < 0:
                return None
            if end - start > LONG_STRING_BYTES:
                head = data[start + 1 : start + 1 + SHOWN_BYTES]
                cut = start + 1 + (SHOWN_BYTES if head.isascii() and b"\\" not in head else 0)
                pieces += [view[at:cut], b"%b_%d_%b" % (self._mark, len(self._strings), PADDING)]
                self._strings.append(view[cut:end])
                at = end
        rest = sum(map(len, pieces)) + len(data) - at
        return b"".join([*pieces, view[at:]]) if rest <= MOST_REST_BYTES else None

    def _end_of(self, data: bytes, start: int) -> int:
        """Returns where the quote is that ends a string; -1 if none does, or if it is too far to look for."""
        end = start - 1
        while (end := data.find(b'"', at := end + 1)) >= 0 and self._left:
            self._left -= 1
            if end == at or data[end - 1] != ord("\\"):
                return end
            text = data[at:end]
            if (len(text) - len(text.rstrip(b"\\"))) % 2 == 0:
                return end
        return -1
