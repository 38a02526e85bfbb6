"""Encodes samples in any of the output formats, as a stream or at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rhapsode.audio.formats import Format, format_of
from rhapsode.audio.mux import NOTHING, Mux, mux_for
from rhapsode.audio.resample import Resampler
from rhapsode.audio.samples import layout_of, pcm16, shaped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rhapsode.types import Clip, Samples

__all__ = ["Encoder", "encode", "pcm16"]


class FileMarks(Protocol):
    """Tags and a signature that are written into files beside the audio."""

    def tags(self) -> Mapping[str, str]: ...

    def sign(self, data: bytes, fmt: Format) -> bytes: ...


class Encoder:
    """A streaming encoder: `write` returns bytes as soon as the codec has produced them.

    With `whole`, all bytes come from `close`, so that the header has the true length.
    """

    def __init__(
        self,
        fmt: Format | str,
        sample_rate: int,
        channels: int = 1,
        *,
        whole: bool = False,
        marks: FileMarks | None = None,
    ) -> None:
        layout_of(channels)
        self.format = format_of(fmt) if isinstance(fmt, str) else fmt
        self._channels = channels
        rate = self.format.rate_for(sample_rate)
        self._resampler = Resampler(sample_rate, rate, channels)
        self._mux: Mux = mux_for(self.format, rate, channels, whole, marks.tags() if marks else {})
        self._marks = marks if whole else None  # a stream cannot be signed: its end is not known
        self._closed = False

    def write(self, samples: Samples) -> bytes:
        """Encodes samples and returns the bytes that are ready."""
        if self._closed:
            raise ValueError("the encoder is closed")
        return self._mux.write(self._resampler.write(shaped(samples, self._channels)))

    def close(self) -> bytes:
        """Ends the stream and returns the remaining bytes. A second call returns none."""
        if self._closed:
            return b""
        self._closed = True
        rest = self._resampler.close()
        data = (self._mux.write(rest) if rest.shape[1] else b"") + self._mux.close()
        return self._marks.sign(data, self.format) if self._marks else data

    def abandon(self) -> None:
        """Frees the codec and drops its last bytes, for a stream that is cut off."""
        self._closed = True
        mux, self._mux = self._mux, NOTHING  # its threads end with the last reference to it
        mux.abandon()


def encode(clip: Clip, fmt: Format | str, marks: FileMarks | None = None) -> bytes:
    """Returns the clip as a complete file of this format."""
    encoder = Encoder(fmt, clip.sample_rate, clip.channels, whole=True, marks=marks)
    return encoder.write(clip.samples) + encoder.close()
