"""SentencePiece's character map: a trie of characters to replace before tokenising, such as full-width letters."""

from __future__ import annotations

import struct


class Charsmap:
    """Replaces known runs of bytes in a text by their normal forms; at each place, the longest run counts."""

    def __init__(self, data: bytes) -> None:
        (size,) = struct.unpack_from("<I", data)
        self._units = struct.unpack_from(f"<{size // 4}I", data, 4)  # a double-array trie
        self._forms = data[4 + size :]  # each ends with a zero byte

    def apply(self, text: str) -> str:
        data = text.encode()
        out = bytearray()
        at = 0
        while at < len(data):
            form, length = self._longest(data, at)
            if form is None:
                length = _char_bytes(data[at])
                out += data[at : at + length]
            else:
                out += self._forms[form : self._forms.index(b"\0", form)]
            at += length
        return out.decode("utf-8", "replace")

    def _longest(self, data: bytes, at: int) -> tuple[int | None, int]:
        """Returns where the form of the longest match begins (None without a match), and how many bytes it replaces."""
        found: int | None = None
        length = 0
        node = _offset(self._units[0])
        for i in range(at, len(data)):
            node ^= data[i]
            if node >= len(self._units):
                break
            unit = self._units[node]
            if unit & 0x8000_00FF != data[i]:
                break
            node ^= _offset(unit)
            if unit >> 8 & 1:
                found, length = self._units[node] & 0x7FFF_FFFF, i + 1 - at
        return found, length


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


def _char_bytes(first: int) -> int:
    return 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
