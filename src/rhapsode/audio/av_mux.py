"""Encodes samples with PyAV, as a stream of bytes or as a file."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import av
import numpy as np
from av.audio.frame import AudioFrame

from rhapsode.audio.samples import clipped, layout_of, pcm16

if TYPE_CHECKING:
    from collections.abc import Mapping

    from av.audio.stream import AudioStream
    from numpy.typing import NDArray

    from rhapsode.types import Samples


@dataclass(frozen=True)
class CodecNames:
    """The PyAV names and options of a format."""

    container: str
    codec: str
    sample_format: str
    bit_rate: int | None = None
    """Bits per second for mono; stereo gets 1.5 times as many."""
    codec_options: dict[str, str] = field(default_factory=dict)
    stream_options: dict[str, str] = field(default_factory=dict)
    """Muxer options for a stream, whose header cannot be rewritten at the end."""
    tag_options: dict[str, str] = field(default_factory=dict)
    """Muxer options for a file with tags."""


CODECS = {
    # Without the bit reservoir no frame depends on a later one, so each can be sent at once.
    "mp3": CodecNames("mp3", "libmp3lame", "fltp", 128_000, {"reservoir": "0"}, {"write_xing": "0"}),
    "opus": CodecNames("ogg", "libopus", "flt", 64_000, {}, {"page_duration": "20000"}),
    # The default coder is several times slower and has audible ringing on steady tones.
    "aac": CodecNames("adts", "aac", "fltp", 128_000, {"aac_coder": "fast"}, {}, {"write_id3v2": "1"}),
    "flac": CodecNames("flac", "flac", "s16"),
}


class FrameMaker:
    """Converts samples to PyAV's frames, with time stamps that follow each other."""

    def __init__(self, sample_format: str, sample_rate: int, channels: int) -> None:
        self._format, self._rate, self._layout = sample_format, sample_rate, layout_of(channels)
        self.pts = 0
        """The number of samples converted so far."""

    def make(self, samples: Samples) -> AudioFrame:
        data: NDArray[Any] = pcm16(samples) if self._format == "s16" else clipped(samples)
        if not self._format.endswith("p"):
            data = data.T.reshape(1, -1)
        frame = AudioFrame.from_ndarray(np.ascontiguousarray(data), format=self._format, layout=self._layout)
        frame.sample_rate, frame.time_base, frame.pts = self._rate, Fraction(1, self._rate), self.pts
        self.pts += samples.shape[1]
        return frame


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


class AvMux:
    def __init__(
        self, codec: CodecNames, sample_rate: int, channels: int, whole: bool, tags: Mapping[str, str]
    ) -> None:
        self._sink = None if whole else _Sink()
        self._file = io.BytesIO()
        options = {} if whole else {**codec.stream_options, "flush_packets": "1"}
        if tags:
            options = {**options, **codec.tag_options}
        # av.open is typed as taking IO[bytes], but an object with `write` is enough.
        file = cast("io.BytesIO", self._sink or self._file)
        self._container = av.open(file, "w", format=codec.container, options=options)
        self._container.metadata.update(tags)
        self._stream = cast(
            "AudioStream",
            self._container.add_stream(
                codec.codec, rate=sample_rate, layout=layout_of(channels), options=dict(codec.codec_options)
            ),
        )
        self._stream.codec_context.thread_count = 1  # more threads are not faster
        self._stream.codec_context.format = codec.sample_format
        if codec.bit_rate:
            self._stream.codec_context.bit_rate = codec.bit_rate * (channels + 1) // 2
        self._frames = FrameMaker(codec.sample_format, sample_rate, channels)

    def write(self, samples: Samples) -> bytes:
        if samples.shape[1]:
            self._container.mux(self._stream.encode(self._frames.make(samples)))
        return self._take()

    def close(self) -> bytes:
        if not self._frames.pts:
            self._container.start_encoding()  # without samples the muxer would write no header
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._take() if self._sink else self._file.getvalue()

    def abandon(self) -> None:
        self._container.close()
        self._file.close()

    def _take(self) -> bytes:
        return self._sink.take() if self._sink else b""
