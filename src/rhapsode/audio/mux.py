"""Writes samples as the bytes of a format: WAV and PCM directly, the others with PyAV."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, cast

import av
import numpy as np
from av.audio.frame import AudioFrame

from rhapsode.audio.samples import clipped, layout_of, pcm16

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from numpy.typing import NDArray

    from rhapsode.audio.formats import Format
    from rhapsode.types import Samples

UNKNOWN_SIZE = 0xFFFFFFFF


class Mux(Protocol):
    """Turns samples into the bytes of one format."""

    def write(self, samples: Samples) -> bytes: ...

    def close(self) -> bytes: ...

    def abandon(self) -> None: ...


@dataclass(frozen=True)
class _Codec:
    """The PyAV names and options of a format."""

    container: str
    codec: str
    sample_format: str
    bit_rate: int | None = None
    """Of mono; stereo gets half as much again."""
    codec_options: dict[str, str] = field(default_factory=dict)
    stream_options: dict[str, str] = field(default_factory=dict)
    """Muxer options for a stream, whose header cannot be rewritten at the end."""


_CODECS = {
    # Without the bit reservoir no frame depends on a later one, so each can be sent at once.
    "mp3": _Codec("mp3", "libmp3lame", "fltp", 128_000, {"reservoir": "0"}, {"write_xing": "0"}),
    "opus": _Codec("ogg", "libopus", "flt", 64_000, {}, {"page_duration": "20000"}),
    # The default coder is several times slower and has audible ringing on steady tones.
    "aac": _Codec("adts", "aac", "fltp", 128_000, {"aac_coder": "fast"}),
    "flac": _Codec("flac", "flac", "s16"),
}


def mux_for(fmt: Format, sample_rate: int, channels: int, whole: bool) -> Mux:
    """Returns the muxer of a format; with `whole` all bytes come at the end, and headers have the true length."""
    if fmt.name in _CODECS:
        return _AvMux(_CODECS[fmt.name], sample_rate, channels, whole)
    return _PcmMux(sample_rate, channels, header=fmt.name == "wav", whole=whole)


class _NoMux:
    """Takes nothing and gives nothing: what is left of a stream that was cut off."""

    def write(self, samples: Samples) -> bytes:
        return b""

    def close(self) -> bytes:
        return b""

    def abandon(self) -> None: ...


NOTHING = _NoMux()


class _PcmMux:
    def __init__(self, sample_rate: int, channels: int, header: bool, whole: bool) -> None:
        self._rate, self._channels = sample_rate, channels
        self._header, self._whole = header, whole
        self._held = bytearray()

    def write(self, samples: Samples) -> bytes:
        data = pcm16(samples).T.astype("<i2", copy=False).tobytes()
        if self._whole:
            self._held += data
            return b""
        return self._head(UNKNOWN_SIZE) + data

    def close(self) -> bytes:
        return self._head(len(self._held) if self._whole else UNKNOWN_SIZE) + bytes(self._held)

    def abandon(self) -> None:
        self._held = bytearray()

    def _head(self, data_size: int) -> bytes:
        """Returns the RIFF header the first time, then nothing."""
        if not self._header:
            return b""
        self._header = False
        riff_size = min(data_size + 36, UNKNOWN_SIZE)
        frame_size = 2 * self._channels
        sizes = (16, 1, self._channels, self._rate, self._rate * frame_size, frame_size, 16)
        return struct.pack(
            "<4sI4s4sIHHIIHH4sI",
            *(b"RIFF", riff_size, b"WAVE", b"fmt ", *sizes, b"data", min(data_size, UNKNOWN_SIZE)),
        )


class _Sink:
    """A file without `seek`: the muxer cannot rewrite bytes that were already sent."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def take(self) -> bytes:
        data = bytes(self._data)
        self._data.clear()
        return data


class _AvMux:
    def __init__(self, codec: _Codec, sample_rate: int, channels: int, whole: bool) -> None:
        self._rate, self._layout = sample_rate, layout_of(channels)
        self._codec = codec
        self._sink = None if whole else _Sink()
        self._file = io.BytesIO()
        options = {} if whole else {**codec.stream_options, "flush_packets": "1"}
        # av.open is typed as taking IO[bytes], but an object with `write` is enough.
        file = cast("io.BytesIO", self._sink or self._file)
        self._container = av.open(file, "w", format=codec.container, options=options)
        self._stream = cast(
            "AudioStream",
            self._container.add_stream(
                codec.codec, rate=sample_rate, layout=self._layout, options=dict(codec.codec_options)
            ),
        )
        self._stream.codec_context.thread_count = 1  # more make nothing faster
        self._stream.codec_context.format = codec.sample_format
        if codec.bit_rate:
            self._stream.codec_context.bit_rate = codec.bit_rate * (channels + 1) // 2
        self._pts = 0

    def write(self, samples: Samples) -> bytes:
        if samples.shape[1]:
            self._container.mux(self._stream.encode(self._frame(samples)))
        return self._take()

    def close(self) -> bytes:
        if not self._pts:
            self._container.start_encoding()  # without samples the muxer would write no header
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._take() if self._sink else self._file.getvalue()

    def abandon(self) -> None:
        self._container.close()
        self._file.close()

    def _take(self) -> bytes:
        return self._sink.take() if self._sink else b""

    def _frame(self, samples: Samples) -> AudioFrame:
        sample_format = self._codec.sample_format
        data: NDArray[Any] = pcm16(samples) if sample_format == "s16" else clipped(samples)
        if not sample_format.endswith("p"):
            data = data.T.reshape(1, -1)
        frame = AudioFrame.from_ndarray(np.ascontiguousarray(data), format=sample_format, layout=self._layout)
        frame.sample_rate, frame.time_base, frame.pts = self._rate, Fraction(1, self._rate), self._pts
        self._pts += samples.shape[1]
        return frame
