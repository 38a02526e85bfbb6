"""Decodes audio files from users. They may be hostile, so containers, codecs, size and duration are limited."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import av
import av.logging
import numpy as np

from rhapsode.audio.resample import Resampler
from rhapsode.errors import BadAudio
from rhapsode.types import Clip

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.container import InputContainer

    from rhapsode.types import Samples

MAX_BYTES = 25 * 2**20
MAX_DURATION_S = 300.0
MIN_RATE, MAX_RATE = 4_000, 192_000

# Playlists and concat scripts can name other files and addresses, so only plain containers are opened.
_CONTAINERS = "wav,w64,aiff,caf,au,mp3,flac,ogg,aac,mov,matroska,amr"
_CODECS = (
    "aac,alac,amrnb,amrwb,flac,libopus,mp2,mp2float,mp3,mp3float,opus,vorbis,adpcm_ima_wav,adpcm_ms,gsm_ms,"
    "pcm_alaw,pcm_mulaw,pcm_u8,pcm_s8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,"
    "pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be"
)
_OPTIONS = {
    "format_whitelist": _CONTAINERS,
    "codec_whitelist": _CODECS,
    "protocol_whitelist": "",
    "max_streams": "16",
}

_MAX_DAMAGED = 1000  # decoding stops when a file has this many more damaged packets than good ones
_MAX_FRAME_SAMPLES = str(2**20)  # a hostile header can declare a frame of gigabytes
_UNREADABLE = "The audio cannot be read: it is damaged or in an unknown format."

_LENIENT: dict[str, Any] = {"metadata_errors": "ignore"} if int(av.__version__.partition(".")[0]) < 19 else {}
"""Makes PyAV ignore tags that are not valid text. PyAV 19 does so by itself."""

av.logging.set_level(None)


def decode(
    source: bytes | Path,
    *,
    max_bytes: int = MAX_BYTES,
    max_duration_s: float = MAX_DURATION_S,
    sample_rate: int | None = None,
    mono: bool = True,
) -> Clip:
    """Decodes a file or its bytes, mixes it to mono unless told otherwise, and resamples it if `sample_rate` is given.

    Every failure is raised as `BadAudio`.
    """
    try:
        with _opened(source, max_bytes) as file:
            return _decoded(file, max_duration_s, sample_rate, mono)
    except BadAudio:
        raise
    except av.FFmpegError as error:
        raise BadAudio(_UNREADABLE) from error
    except OSError as error:
        raise BadAudio(f"The audio cannot be read: {error.strerror}.") from error
    except Exception as error:  # a hostile file can make the decoder raise anything
        raise BadAudio(_UNREADABLE) from error


def _opened(source: bytes | Path, max_bytes: int) -> BinaryIO:
    if isinstance(source, Path):
        if not source.is_file():
            raise BadAudio(f"There is no audio file at '{source}'.")
        size = source.stat().st_size
    else:
        size = len(source)
    if size == 0:
        raise BadAudio("The audio is empty: it has no bytes.")
    if size > max_bytes:
        raise BadAudio(f"The audio is too large: {size} bytes, where {max_bytes} are allowed.")
    return source.open("rb") if isinstance(source, Path) else io.BytesIO(source)


def _decoded(file: BinaryIO, max_duration_s: float, sample_rate: int | None, mono: bool) -> Clip:
    blocks: list[Samples] = []
    resampler: Resampler | None = None
    rate = length = 0
    with av.open(file, "r", options=dict(_OPTIONS), **_LENIENT) as container:
        for frame in _frames(container):
            samples = _samples(frame)
            if mono:
                samples = samples.mean(axis=0, keepdims=True, dtype=np.float32)
            if resampler is None:
                rate = _checked_rate(frame.sample_rate)
                resampler = Resampler(rate, sample_rate or rate, samples.shape[0])
                channels = samples.shape[0]
            if frame.sample_rate != rate or samples.shape[0] != channels:
                raise BadAudio("The audio changes its sample rate or its number of channels midway.")
            length += samples.shape[1]
            if length > max_duration_s * rate:
                raise BadAudio(f"The audio is too long: at most {max_duration_s:g} seconds are allowed.")
            blocks.append(resampler.write(samples))
    if resampler is None or length == 0:
        raise BadAudio("The audio is empty: nothing in it can be decoded.")
    blocks.append(resampler.close())
    return Clip(np.concatenate(blocks, axis=1), sample_rate or rate)


def _frames(container: InputContainer) -> Iterator[AudioFrame]:
    """Yields the frames of the first audio stream. Damaged packets are skipped, as players do, unless most are."""
    if not container.streams.audio:
        raise BadAudio("The file has no audio stream.")
    stream = container.streams.audio[0]
    if stream.codec_context.name not in _CODECS.split(","):
        raise BadAudio(f"The audio codec '{stream.codec_context.name}' is not supported.")
    stream.codec_context.options = {"max_samples": _MAX_FRAME_SAMPLES}
    good = bad = 0
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except av.FFmpegError:
            bad += 1
            if bad > good + _MAX_DAMAGED:
                break
            continue
        good += 1
        yield from frames
    if bad > good:
        raise BadAudio("The audio is damaged: most of it cannot be decoded.")


def _samples(frame: AudioFrame) -> Samples:
    """Returns the frame as float32 `[channels, n]`, clipped to full scale."""
    data = frame.to_ndarray()
    if frame.format.is_packed:
        data = data.reshape(-1, frame.layout.nb_channels).T
    if data.dtype.kind == "f":
        with np.errstate(over="ignore"):
            samples = data.astype(np.float32)
        if not np.isfinite(samples).all():
            raise BadAudio("The audio contains samples that are not finite numbers.")
        return np.clip(samples, -1.0, 1.0)
    half = 2 ** (8 * data.dtype.itemsize - 1)
    centred = data.astype(np.float32) - half if data.dtype.kind == "u" else data.astype(np.float32)
    return centred / np.float32(half)


def _checked_rate(sample_rate: int) -> int:
    if not MIN_RATE <= sample_rate <= MAX_RATE:
        raise BadAudio(f"The sample rate must be from {MIN_RATE} to {MAX_RATE} Hz, not {sample_rate} Hz.")
    return sample_rate
