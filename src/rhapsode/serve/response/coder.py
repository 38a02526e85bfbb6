"""Encodes chunks of speech as the bytes of a format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from rhapsode.audio.chain import Transform
from rhapsode.audio.encode import Encoder
from rhapsode.audio.finish import Finish
from rhapsode.audio.formats import PCM, Format
from rhapsode.audio.resample import Resampler
from rhapsode.audio.samples import pcm16
from rhapsode.marking.marker import Marker
from rhapsode.serve.response.times import HeardTimes
from rhapsode.types import AudioChunk, SpeechRequest

if TYPE_CHECKING:
    from rhapsode.engine import Speech


@dataclass(frozen=True)
class Output:
    """The audio to make of a model's samples."""

    format: Format
    sample_rate: int
    channels: int
    is_whole: bool = False
    """Whether all bytes come at the end, as one complete file."""


class Coder(Protocol):
    """Takes chunks and returns the bytes that are ready."""

    is_cheap: bool
    """Whether encoding is simple arithmetic, which is then done in the event loop."""

    def write(self, chunks: Sequence[AudioChunk]) -> bytes: ...

    def close(self) -> bytes:
        """Returns the last bytes."""

    def abandon(self) -> None:
        """Frees everything, without the last bytes."""


class FullCoder:
    """Applies speed, loudness, watermark and sample rate, then encodes the samples in the format."""

    def __init__(
        self,
        speech: Speech,
        request: SpeechRequest,
        output: Output,
        times: HeardTimes,
        marks: Marker | None = None,
        made_at: datetime | None = None,
    ) -> None:
        rate, channels = output.sample_rate, output.channels
        watermarks = marks.watermarks(speech.sample_rate, channels, made_at) if marks else ()
        is_same_rate = rate == speech.sample_rate
        resampler = () if is_same_rate else (Resampler(speech.sample_rate, rate, channels),)
        then: tuple[Transform, ...] = (*watermarks, *resampler)
        self._times = times
        self._finish = Finish(request, speech.sample_rate, speech.channels, channels, then)
        self._encoder = Encoder(output.format, rate, channels, whole=output.is_whole, marks=marks)
        is_unchanged = is_same_rate and channels == speech.channels
        is_plain = request.speed == request.volume == 1.0 and request.loudness is None and marks is None
        self.is_cheap = output.format.coding is not None and is_unchanged and is_plain

    def write(self, chunks: Sequence[AudioChunk]) -> bytes:
        data = self._encoder.write(self._finish.write(chunks))
        self._times.add(chunks, self._finish)
        return data

    def close(self) -> bytes:
        tail = self._finish.close()
        return (self._encoder.write(tail) if tail.shape[1] else b"") + self._encoder.close()

    def abandon(self) -> None:
        self._encoder.abandon()


class PlainCoder:
    """Returns 16-bit samples without further processing. Most streams need no more, and no other coder is cheaper."""

    is_cheap = True

    @staticmethod
    def fits(speech: Speech, request: SpeechRequest, output: Output, marks: Marker | None) -> bool:
        """Returns whether the samples of a request need no processing. SSML and segments are excluded, since they may
        change the speed or the loudness within the text."""
        if output.format is not PCM or output.is_whole or marks is not None:
            return False
        is_as_made = request.speed == request.volume == 1.0 and request.loudness is None and not request.segments
        is_untimed = request.input_type == "text" and not request.word_timestamps
        is_unchanged = (output.sample_rate, output.channels) == (speech.sample_rate, speech.channels)
        return is_as_made and is_untimed and is_unchanged

    def write(self, chunks: Sequence[AudioChunk]) -> bytes:
        return b"".join([_bytes_of(chunk) for chunk in chunks])

    def close(self) -> bytes:
        return b""

    def abandon(self) -> None: ...


def _bytes_of(chunk: AudioChunk) -> bytes:
    """Returns a chunk as 16-bit samples, without conversion if the model made such samples."""
    values = pcm16(chunk.samples) if chunk.pcm16 is None else chunk.pcm16
    data: bytes = values.T.astype("<i2", copy=False).tobytes()  # `T` interleaves the channels
    return data
