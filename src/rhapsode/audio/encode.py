"""Samples to bytes in any of the six formats, in a stream or at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rhapsode.audio.formats import Format, format_of
from rhapsode.audio.mux import NOTHING, Mux, mux_for
from rhapsode.audio.resample import Resampler
from rhapsode.audio.samples import layout_of, pcm16, shaped

if TYPE_CHECKING:
    from rhapsode.types import Clip, Samples

__all__ = ["Encoder", "encode", "pcm16"]


class Encoder:
    """Samples in, bytes out as soon as the codec has them.

    With `whole`, everything comes at `close`, and headers tell the true length.
    """

    def __init__(self, fmt: Format | str, sample_rate: int, channels: int = 1, *, whole: bool = False) -> None:
        layout_of(channels)
        self.format = format_of(fmt) if isinstance(fmt, str) else fmt
        self._channels = channels
        rate = self.format.rate_for(sample_rate)
        self._resampler = Resampler(sample_rate, rate, channels)
        self._mux: Mux = mux_for(self.format, rate, channels, whole)
        self._closed = False

    def write(self, samples: Samples) -> bytes:
        """The bytes that these samples complete."""
        if self._closed:
            raise ValueError("the encoder is closed")
        return self._mux.write(self._resampler.write(shaped(samples, self._channels)))

    def close(self) -> bytes:
        """All bytes still owed; nothing the second time."""
        if self._closed:
            return b""
        self._closed = True
        return self._mux.write(self._resampler.close()) + self._mux.close()

    def abandon(self) -> None:
        """Frees the codec without its last bytes, for a stream that is cut off."""
        self._closed = True
        mux, self._mux = self._mux, NOTHING  # its threads end with the last reference to it
        mux.abandon()


def encode(clip: Clip, fmt: Format | str) -> bytes:
    """The whole clip as a file of this format."""
    encoder = Encoder(fmt, clip.sample_rate, clip.channels, whole=True)
    return encoder.write(clip.samples) + encoder.close()
