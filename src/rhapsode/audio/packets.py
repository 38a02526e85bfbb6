"""Opus packets as RTP and WebRTC carry them: 20 ms each, without a container.

In a stream of bytes every packet follows its length, 16 bits in network byte order. A WebSocket and server-sent events
carry each packet in a message of its own, without the length.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import av

from rhapsode.audio.av_mux import FrameMaker
from rhapsode.audio.samples import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.audio.codeccontext import AudioCodecContext
    from av.packet import Packet

    from rhapsode.types import Samples

PACKET_MS = 20
_BIT_RATE = 32_000  # of mono: what WebRTC uses for speech
_LENGTH = struct.Struct(">H")


class PacketMux:
    """Encodes samples as Opus packets of 20 ms; the last one is filled up with silence."""

    def __init__(self, sample_rate: int, channels: int, whole: bool) -> None:
        codec = av.CodecContext.create("libopus", "w")
        codec.sample_rate, codec.layout, codec.format = sample_rate, layout_of(channels), "flt"
        codec.bit_rate = _BIT_RATE * (channels + 1) // 2
        codec.options = {"frame_duration": str(PACKET_MS), "application": "voip"}
        codec.thread_count = 1
        self._codec: AudioCodecContext | None = codec
        self._frames = FrameMaker("flt", sample_rate, channels)
        self._whole = whole
        self._held = b""

    def write(self, samples: Samples) -> bytes:
        if self._codec is None or not samples.shape[1]:
            return b""
        data = _framed(self._codec.encode(self._frames.make(samples)))
        if not self._whole:
            return data
        self._held += data
        return b""

    def close(self) -> bytes:
        if self._codec is None or not self._frames.pts:
            return b""
        return self._held + _framed(self._codec.encode(None))

    def abandon(self) -> None:
        self._codec, self._held = None, b""


def packets_of(data: bytes) -> Iterator[bytes]:
    """Yields the packets of a stream that is cut between packets."""
    at = 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        yield data[at - length : at]


def _framed(packets: list[Packet[Any]]) -> bytes:
    return b"".join(_LENGTH.pack(packet.size) + bytes(packet) for packet in packets)
