"""The table of output formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from rhapsode.errors import InvalidRequest, OutputError

_MPEG_RATES = (16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
_PCM_RATE = 24_000  # what Pipecat, LiveKit and OpenAI's own SDK expect


@dataclass(frozen=True)
class Format:
    """An output format: its name in requests, its media type and its file extensions."""

    name: str
    media_type: str
    extensions: tuple[str, ...] = ()
    sample_rates: tuple[int, ...] = ()
    """The sample rates that the codec supports; empty means any."""
    lossless: bool = False
    coding: Literal["s16le", "s16be", "mulaw", "alaw"] | None = None
    """How each sample is written, in formats that need no codec library."""
    riff_tag: int | None = None
    """WAV's number for the coding; `None`: the file has no WAV header."""
    default_rate: int | None = None
    """The sample rate, unless a request names another; `None` is the model's."""
    default_channels: Literal[1, 2] | None = None
    names_rate: bool = False
    """Whether the media type has the sample rate and the channels as parameters."""
    bit_rate: int | None = None
    """Bits per second of the codec, for mono; `None` is the default in `av_mux.py`."""
    has_packets: bool = False
    """Whether the bytes are packets with their lengths: see `packets.py`."""

    def rate_for(self, sample_rate: int) -> int:
        """Returns the rate to encode at: the given one if the codec supports it, else the next higher one."""
        if not self.sample_rates or sample_rate in self.sample_rates:
            return sample_rate
        return min((r for r in self.sample_rates if r > sample_rate), default=max(self.sample_rates))

    def content_type(self, sample_rate: int, channels: int) -> str:
        """Returns the media type of audio at this rate, with its parameters."""
        return f"{self.media_type};rate={sample_rate};channels={channels}" if self.names_rate else self.media_type


WAV = Format("wav", "audio/wav", (".wav", ".wave"), lossless=True, coding="s16le", riff_tag=1)
MP3 = Format("mp3", "audio/mpeg", (".mp3",), _MPEG_RATES)
FLAC = Format("flac", "audio/flac", (".flac",), lossless=True)
# OpenAI sends audio/opus, but its SDKs ignore the type. Browsers use it, and play Ogg Opus as audio/ogg (RFC 7845).
OPUS = Format("opus", "audio/ogg", (".opus", ".ogg", ".oga"), _OPUS_RATES)
AAC = Format("aac", "audio/aac", (".aac",), _MPEG_RATES)
PCM = Format(
    *("pcm", "audio/pcm", (".pcm", ".raw")), lossless=True, coding="s16le", default_rate=_PCM_RATE, default_channels=1
)
# The codings of telephony: G.711 at 8 kHz, and the 16 bits of RTP, in network byte order (RFC 3551).
MULAW = Format("mulaw", "audio/PCMU", (".ulaw", ".mulaw", ".ul"), (8_000,), coding="mulaw", default_channels=1)
ALAW = Format("alaw", "audio/PCMA", (".alaw", ".al"), (8_000,), coding="alaw", default_channels=1)
WAV_MULAW = Format("wav_mulaw", "audio/wav", (), (8_000,), coding="mulaw", riff_tag=7, default_channels=1)
WAV_ALAW = Format("wav_alaw", "audio/wav", (), (8_000,), coding="alaw", riff_tag=6, default_channels=1)
L16 = Format(
    *("l16", "audio/L16", (".l16",)),
    lossless=True,
    coding="s16be",
    default_rate=_PCM_RATE,
    default_channels=1,
    names_rate=True,
)
OPUS_PACKETS = Format("opus_packets", "audio/x-opus-packets", (), _OPUS_RATES, default_channels=1, has_packets=True)

_TELEPHONY = (MULAW, ALAW, WAV_MULAW, WAV_ALAW, L16, OPUS_PACKETS)
FORMATS = {f.name: f for f in (MP3, OPUS, AAC, FLAC, WAV, PCM, *_TELEPHONY)}
_BY_EXTENSION = {extension: f for f in FORMATS.values() for extension in f.extensions}


def format_of(path_or_name: str | Path) -> Format:
    """Returns the format with this name ('mp3'), or the format of this path's extension ('speech.mp3')."""
    text = str(path_or_name).lower()
    suffix = PurePath(text).suffix
    found = _BY_EXTENSION.get(suffix)
    if found is None and not isinstance(path_or_name, Path):
        found = FORMATS.get(text)
    if found is not None:
        return found
    names = ", ".join(FORMATS)
    if isinstance(path_or_name, Path) or suffix:
        known = ", ".join(f.extensions[0] for f in FORMATS.values() if f.extensions)
        right = f"end it in one of {known}, or a book in .m4b"
        raise OutputError(f"Cannot tell the audio format of '{path_or_name}': {right}.")
    raise InvalidRequest(f"Unknown audio format '{path_or_name}': use one of {names}.", param="response_format")
