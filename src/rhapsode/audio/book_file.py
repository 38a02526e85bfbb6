"""Writes an audio book: a file on disk with a mark for every chapter."""

from __future__ import annotations

import contextlib
import os
import secrets
import wave
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import av

from rhapsode.audio.av_mux import CODECS, CodecNames, FrameMaker
from rhapsode.audio.formats import AAC, FLAC, FORMATS, Format
from rhapsode.audio.resample import Resampler
from rhapsode.audio.samples import layout_of, pcm16
from rhapsode.errors import MissingDependency, OutputError
from rhapsode.extras import how_to_add

if TYPE_CHECKING:
    from av.audio.stream import AudioStream

    from rhapsode.types import Samples

M4B = Format("m4b", "audio/mp4", (".m4b", ".m4a"), AAC.sample_rates)
BOOK_FORMATS = (M4B, *(FORMATS[name] for name in ("mp3", "opus", "flac", "wav")))
_M4B_CODEC = CodecNames("ipod", "aac", "fltp", 96_000, {"aac_coder": "fast"}, {}, {})
_TICK = Fraction(1, 1000)


@dataclass(frozen=True)
class ChapterMark:
    """Where a chapter begins and ends."""

    title: str
    start_s: float
    end_s: float


def book_format(path: Path) -> Format:
    """Returns the format of a book by its extension."""
    found = next((f for f in BOOK_FORMATS if path.suffix.lower() in f.extensions), None)
    if found is None:
        known = ", ".join(f.extensions[0] for f in BOOK_FORMATS)
        raise OutputError(f"Cannot write a book to '{path}': end it in one of {known}.")
    return found


def write_book(
    path: Path,
    blocks: Iterable[Samples],
    sample_rate: int,
    channels: int,
    chapters: Sequence[ChapterMark],
    tags: Mapping[str, str],
) -> None:
    """Writes all blocks to a file, without keeping them in memory. If this fails, an existing file is unchanged."""
    fmt = book_format(path)
    temporary = path.with_name(f".{secrets.token_hex(8)}{fmt.extensions[0]}")
    try:
        if fmt.coding:
            _write_wav(temporary, blocks, sample_rate, channels)
        else:
            codec = _M4B_CODEC if fmt is M4B else CODECS[fmt.name]
            if fmt is FLAC:  # FFmpeg cannot write FLAC chapters, but reads them from these comments
                tags = {**tags, **_chapter_comments(chapters)}
            _write_with(codec, temporary, blocks, (sample_rate, fmt.rate_for(sample_rate), channels), chapters, tags)
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"Cannot save to '{path}': {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_with(
    codec: CodecNames,
    path: Path,
    blocks: Iterable[Samples],
    shape: tuple[int, int, int],
    chapters: Sequence[ChapterMark],
    tags: Mapping[str, str],
) -> None:
    from_rate, rate, channels = shape
    resampler, frames = Resampler(from_rate, rate, channels), FrameMaker(codec.sample_format, rate, channels)
    with av.open(str(path), "w", format=codec.container) as container:
        if not hasattr(container, "set_chapters"):
            raise MissingDependency(f"chapter marks need a newer PyAV: {how_to_add('-U av')}")
        container.metadata.update(tags)
        container.set_chapters([_chapter(index, mark) for index, mark in enumerate(chapters)])
        added = container.add_stream(
            codec.codec, rate=rate, layout=layout_of(channels), options=dict(codec.codec_options)
        )
        stream = cast("AudioStream", added)
        stream.codec_context.format = codec.sample_format
        if codec.bit_rate:
            stream.codec_context.bit_rate = codec.bit_rate * (channels + 1) // 2
        for block in blocks:
            samples = resampler.write(block)
            if samples.shape[1]:
                container.mux(stream.encode(frames.make(samples)))
        rest = resampler.close()
        if rest.shape[1]:
            container.mux(stream.encode(frames.make(rest)))
        container.mux(stream.encode(None))


def _chapter(index: int, mark: ChapterMark) -> Any:
    return {
        "id": index,
        "start": round(mark.start_s / _TICK),
        "end": round(mark.end_s / _TICK),
        "time_base": _TICK,
        "metadata": {"title": mark.title},
    }


def _chapter_comments(chapters: Sequence[ChapterMark]) -> dict[str, str]:
    """Returns the chapters as Vorbis comments."""
    comments = {}
    for index, mark in enumerate(chapters):
        minutes, seconds = divmod(mark.start_s, 60)
        comments[f"CHAPTER{index:03d}"] = f"{int(minutes) // 60:02d}:{int(minutes) % 60:02d}:{seconds:06.3f}"
        comments[f"CHAPTER{index:03d}NAME"] = mark.title
    return comments


def _write_wav(path: Path, blocks: Iterable[Samples], sample_rate: int, channels: int) -> None:
    """Writes a WAV file, which has no chapter marks."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        for block in blocks:
            file.writeframes(pcm16(block).T.astype("<i2", copy=False).tobytes())
