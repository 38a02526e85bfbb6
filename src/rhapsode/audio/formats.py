"""The table of the six output formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath

from rhapsode.errors import InvalidRequest, OutputError

_MPEG_RATES = (16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)


@dataclass(frozen=True)
class Format:
    """An output format: its name in requests, its media type and its file extensions."""

    name: str
    media_type: str
    extensions: tuple[str, ...]
    sample_rates: tuple[int, ...] = ()
    """The sample rates that the codec supports; empty means any."""
    lossless: bool = False

    def rate_for(self, sample_rate: int) -> int:
        """Returns the rate to encode at: the given one if the codec supports it, else the next higher one."""
        if not self.sample_rates or sample_rate in self.sample_rates:
            return sample_rate
        return min((r for r in self.sample_rates if r > sample_rate), default=max(self.sample_rates))


WAV = Format("wav", "audio/wav", (".wav", ".wave"), lossless=True)
MP3 = Format("mp3", "audio/mpeg", (".mp3",), _MPEG_RATES)
FLAC = Format("flac", "audio/flac", (".flac",), lossless=True)
# OpenAI sends audio/opus, but its SDKs ignore the type. Browsers use it, and play Ogg Opus as audio/ogg (RFC 7845).
OPUS = Format("opus", "audio/ogg", (".opus", ".ogg", ".oga"), _OPUS_RATES)
AAC = Format("aac", "audio/aac", (".aac",), _MPEG_RATES)
PCM = Format("pcm", "audio/pcm", (".pcm", ".raw"), lossless=True)

FORMATS = {f.name: f for f in (MP3, OPUS, AAC, FLAC, WAV, PCM)}
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
        raise OutputError(f"Cannot tell the audio format of '{path_or_name}': end it in one of {names}.")
    raise InvalidRequest(f"Unknown audio format '{path_or_name}': use one of {names}.", param="response_format")
