"""Reads the chapters of an MP4 file from its chapter track, box by box (ISO/IEC 14496-12; QuickTime's `tref/chap`)."""

import struct
from collections.abc import Iterator
from pathlib import Path

WITH_VERSION = 4  # bytes of version and flags at the start of a full box


def boxes(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The boxes that follow each other in these bytes: name and content."""
    start = 0
    while start < len(data):
        size, name = struct.unpack_from(">I4s", data, start)
        header = 8
        if size == 1:
            (size,), header = struct.unpack_from(">Q", data, start + 8), 16
        end = start + size if size else len(data)
        assert start + header <= end <= len(data)
        yield name.decode("latin-1"), data[start + header : end]
        start = end


def inside(data: bytes, *path: str) -> bytes:
    """The content of the first box at this path."""
    for name in path:
        data = next(content for found, content in boxes(data) if found == name)
    return data


def numbers(full_box: bytes, per_row: int, skipped: int = 0) -> list[tuple[int, ...]]:
    """The rows of a table of 32-bit numbers."""
    (rows,) = struct.unpack_from(">I", full_box, WITH_VERSION + skipped)
    first = WITH_VERSION + skipped + 4
    return [struct.unpack_from(f">{per_row}I", full_box, first + 4 * per_row * row) for row in range(rows)]


def track_id(track: bytes) -> int:
    header = inside(track, "tkhd")
    return struct.unpack_from(">I", header, 20 if header[0] == 1 else 12)[0]


def read_chapter_track(file: Path) -> list[tuple[str, float]]:
    """Title and start of each chapter, in the order of the track that the sound's track names as its chapters."""
    data = file.read_bytes()
    tracks = [content for name, content in boxes(inside(data, "moov")) if name == "trak"]
    (sound,) = [track for track in tracks if inside(track, "mdia", "hdlr")[8:12] == b"soun"]
    (wanted,) = struct.unpack(">I", inside(sound, "tref", "chap"))
    (track,) = [track for track in tracks if track_id(track) == wanted]
    clock = inside(track, "mdia", "mdhd")
    (ticks_per_s,) = struct.unpack_from(">I", clock, 20 if clock[0] == 1 else 12)
    table = inside(track, "mdia", "minf", "stbl")
    durations = [ticks for count, ticks in numbers(inside(table, "stts"), 2) for _ in range(count)]
    titles = [title_at(data, offset) for offset in sample_offsets(table, len(durations))]
    return [(title, sum(durations[:index]) / ticks_per_s) for index, title in enumerate(titles)]


def sample_offsets(table: bytes, samples: int) -> list[int]:
    """The place of every sample in the file, from the chunks and how many samples each has."""
    names = {name for name, _ in boxes(table)}
    sizes = inside(table, "stsz")
    (constant,) = struct.unpack_from(">I", sizes, WITH_VERSION)
    lengths = [constant] * samples if constant else [size for (size,) in numbers(sizes, 1, skipped=4)]
    assert "stco" in names, "64-bit offsets are for files above 4 GB"
    chunks = [offset for (offset,) in numbers(inside(table, "stco"), 1)]
    runs = numbers(inside(table, "stsc"), 3)
    offsets: list[int] = []
    for index, chunk in enumerate(chunks, start=1):
        in_chunk = [count for first, count, _ in runs if first <= index][-1]
        for _ in range(in_chunk):
            offsets.append(chunk)
            chunk += lengths[len(offsets) - 1]
    assert len(offsets) == len(lengths) == samples
    return offsets


def title_at(data: bytes, offset: int) -> str:
    """A text sample: its length in two bytes, then UTF-8."""
    (length,) = struct.unpack_from(">H", data, offset)
    return data[offset + 2 : offset + 2 + length].decode()
