"""Reads samples from the bytes of a response as they arrive: raw PCM, WAV, or either inside server-sent events."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.int16]
DEFAULT_RATE = 24_000


class BadResponse(Exception):
    """The response cannot be used. The report counts it under `kind`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class PcmReader(Protocol):
    """Takes bytes and returns interleaved samples, `[samples * channels]`."""

    sample_rate: int
    channels: int

    def feed(self, data: bytes) -> Pcm: ...

    def close(self) -> None:
        """Raises if the stream is incomplete."""


class RawReader:
    def __init__(self, sample_rate: int, channels: int = 1) -> None:
        self.sample_rate, self.channels = sample_rate, channels
        self._rest = b""

    def feed(self, data: bytes) -> Pcm:
        data = self._rest + data
        whole = len(data) // 2 * 2
        self._rest = data[whole:]
        return np.frombuffer(data[:whole], "<i2")

    def close(self) -> None:
        if self._rest:
            raise BadResponse("malformed", "half a sample at the end")


class WavReader:
    """Reads a WAV header, then samples until the stream ends, whatever length the header gives."""

    def __init__(self) -> None:
        self.sample_rate, self.channels = DEFAULT_RATE, 1
        self._head = b""
        self._raw: RawReader | None = None

    def feed(self, data: bytes) -> Pcm:
        if self._raw is None:
            self._head += data
            start = self._read_header()
            if start is None:
                return np.zeros(0, np.int16)
            data, self._head = self._head[start:], b""
            self._raw = RawReader(self.sample_rate, self.channels)
        return self._raw.feed(data)

    def close(self) -> None:
        if self._raw is None:
            raise BadResponse("malformed", "no WAV header")
        self._raw.close()

    def _read_header(self) -> int | None:
        """Returns the offset of the samples, or None while the header is incomplete."""
        head = self._head
        if len(head) >= 12 and (head[:4] != b"RIFF" or head[8:12] != b"WAVE"):
            raise BadResponse("malformed", "not a WAV file")
        at = 12
        while len(head) >= at + 8:
            name, size = struct.unpack("<4sI", head[at : at + 8])
            if name == b"data":
                return at + 8
            if len(head) < at + 8 + size:
                return None
            if name == b"fmt ":
                coding, self.channels, self.sample_rate = struct.unpack("<HHI", head[at + 8 : at + 16])
                bits = struct.unpack("<H", head[at + 22 : at + 24])[0]
                if coding not in (1, 0xFFFE) or bits != 16:
                    raise BadResponse("malformed", "not 16-bit PCM")
            at += 8 + size + size % 2
        return None


class EventReader:
    """Reads OpenAI's `speech.audio.delta` events and their variants: base64 under `audio`, `delta` or `data`."""

    def __init__(self, sample_rate: int, channels: int = 1) -> None:
        self.sample_rate, self.channels = sample_rate, channels
        self._lines = b""
        self._ended = False

    def feed(self, data: bytes) -> Pcm:
        *lines, self._lines = (self._lines + data).split(b"\n")
        found = [self._event(line[5:].strip()) for line in lines if line.startswith(b"data:")]
        return np.concatenate([np.zeros(0, np.int16), *found])

    def close(self) -> None:
        if not self._ended:
            raise BadResponse("dropped", "the events ended without a final event")

    def _event(self, data: bytes) -> Pcm:
        nothing = np.zeros(0, np.int16)
        if data == b"[DONE]":
            self._ended = True
            return nothing
        try:
            event: Any = json.loads(data)
        except ValueError:
            raise BadResponse("malformed", "an event is not JSON") from None
        if not isinstance(event, dict):
            return nothing
        if event.get("error") or str(event.get("type", "")).endswith("error"):
            raise BadResponse("error event", str(event.get("error") or event))
        self._ended |= str(event.get("type", "")).endswith(".done") or event.get("finish_reason") is not None
        coded = event.get("audio") or event.get("delta") or event.get("data")
        if isinstance(coded, dict):
            self.sample_rate = int(coded.get("sample_rate") or self.sample_rate)
            coded = coded.get("data")
        if not isinstance(coded, str) or not coded:
            return nothing
        try:
            audio = base64.b64decode(coded, validate=True)
        except (ValueError, binascii.Error):
            raise BadResponse("malformed", "an event's audio is not base64") from None
        if not audio.startswith(b"RIFF"):
            return RawReader(self.sample_rate).feed(audio)
        wav = WavReader()
        samples = wav.feed(audio)
        self.sample_rate, self.channels = wav.sample_rate, wav.channels
        return samples


def reader_for(content_type: str, headers: dict[str, str], sample_rate: int | None) -> PcmReader:
    """Returns the reader for a content type."""
    rate = sample_rate or int(headers.get("x-sample-rate") or headers.get("x-audio-sample-rate") or DEFAULT_RATE)
    channels = int(headers.get("x-channels") or 1)
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return EventReader(rate, channels)
    if "wav" in kind:
        return WavReader()
    if kind in ("audio/pcm", "audio/l16", "application/octet-stream", "audio/raw", ""):
        return RawReader(rate, channels)
    raise BadResponse("wrong format", f"the server sent {kind}: only pcm and wav can be timed sample by sample")
