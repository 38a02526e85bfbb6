"""ElevenLabs' names of output formats: codec, sample rate and, where the codec has one, bit rate."""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.errors import InvalidRequest
from rhapsode.serve.response.errors import MAX_SHOWN_CHARS

DEFAULT_FORMAT = "mp3_44100_128"
_CODECS = {"ulaw": "mulaw"}
_RATES = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_KILOBITS = (32, 64, 96, 128, 192)
OUTPUT_FORMATS = (
    "mp3_22050_32",
    "mp3_24000_48",
    *(f"mp3_44100_{kilobits}" for kilobits in _KILOBITS),
    *(f"opus_48000_{kilobits}" for kilobits in _KILOBITS),
    *(f"{codec}_{rate}" for codec in ("pcm", "wav") for rate in _RATES),
    "ulaw_8000",
    "alaw_8000",
)


@dataclass(frozen=True)
class ElevenLabsFormat:
    """An output format of ElevenLabs, in the terms of this server's own API."""

    name: str
    sample_rate: int
    bit_rate: int | None = None


def parse_format(name: str | None) -> ElevenLabsFormat:
    """Parses an `output_format`; raises `InvalidRequest` if there is no format of this name."""
    name = name or DEFAULT_FORMAT
    if name not in OUTPUT_FORMATS:
        known = ", ".join(OUTPUT_FORMATS)
        raise InvalidRequest(f"there is no format '{name[:MAX_SHOWN_CHARS]}'; known: {known}.", param="output_format")
    codec, rate, *kilobits = name.split("_")
    return ElevenLabsFormat(_CODECS.get(codec, codec), int(rate), 1000 * int(kilobits[0]) if kilobits else None)
