"""Writes samples without a codec library: 16 bits or G.711, raw or as a WAV file."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from rhapsode.audio.g711 import encode_alaw, encode_mulaw
from rhapsode.audio.samples import pcm16

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from rhapsode.audio.formats import Format
    from rhapsode.types import Samples

UNKNOWN_SIZE = 0xFFFFFFFF
_CODINGS: dict[str | None, tuple[int, Callable[[NDArray[np.int16]], NDArray[Any]]]] = {
    "s16le": (2, lambda values: values.astype("<i2", copy=False)),
    "s16be": (2, lambda values: values.astype(">i2")),
    "mulaw": (1, encode_mulaw),
    "alaw": (1, encode_alaw),
}
"""For each coding: the bytes of one sample, and the function that encodes 16-bit samples."""
_PLAIN_PCM = 1


class SampleMux:
    """Writes every sample by itself, with or without a WAV header."""

    def __init__(self, fmt: Format, sample_rate: int, channels: int, whole: bool, tags: Mapping[str, str]) -> None:
        self._rate, self._channels = sample_rate, channels
        self._sample_bytes, self._code = _CODINGS[fmt.coding]
        self._riff_tag = fmt.riff_tag
        # Tags stand behind the samples, since many readers expect a header of 44 bytes. A stream has no room for them.
        self._info = _info_chunk(tags) if fmt.riff_tag and whole and tags else b""
        self._whole = whole
        self._begun = False
        self._held = bytearray()

    def write(self, samples: Samples) -> bytes:
        data = self._code(np.ascontiguousarray(pcm16(samples).T)).tobytes()
        if self._whole:
            self._held += data
            return b""
        return self._head(UNKNOWN_SIZE) + data

    def close(self) -> bytes:
        head = self._head(len(self._held) if self._whole else UNKNOWN_SIZE)
        padding = b"\0" if self._riff_tag and len(self._held) % 2 else b""  # a RIFF chunk has an even size
        return head + bytes(self._held) + padding + self._info

    def abandon(self) -> None:
        self._held = bytearray()

    def _head(self, data_size: int) -> bytes:
        """Returns the RIFF header the first time, then nothing."""
        if self._riff_tag is None or self._begun:
            return b""
        self._begun = True
        frame_size = self._sample_bytes * self._channels
        layout = (self._channels, self._rate, self._rate * frame_size, frame_size, 8 * self._sample_bytes)
        about = struct.pack("<HHIIHH", self._riff_tag, *layout)
        if self._riff_tag == _PLAIN_PCM:
            chunks = _chunk(b"fmt ", about)
        else:  # all others name the size of an extension, which is empty, and the number of samples
            frames = UNKNOWN_SIZE if data_size == UNKNOWN_SIZE else data_size // frame_size
            chunks = _chunk(b"fmt ", about + b"\0\0") + _chunk(b"fact", struct.pack("<I", frames))
        size = min(4 + len(chunks) + 8 + data_size + data_size % 2 + len(self._info), UNKNOWN_SIZE)
        data_head = b"data" + struct.pack("<I", min(data_size, UNKNOWN_SIZE))
        return b"RIFF" + struct.pack("<I", size) + b"WAVE" + chunks + data_head


def _chunk(name: bytes, body: bytes) -> bytes:
    """Returns a RIFF chunk; one of odd size is followed by a byte that does not count."""
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def _info_chunk(tags: Mapping[str, str]) -> bytes:
    """Returns the tags that WAV has names for."""
    names = {"comment": b"ICMT", "date": b"ICRD"}
    found = (_chunk(name, tags[tag].encode() + b"\0") for tag, name in names.items() if tag in tags)
    return _chunk(b"LIST", b"INFO" + b"".join(found))
