"""`rhapsode say -o book.m4b`: speaks a book part by part, and continues where it was interrupted."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rhapsode.cli.output import Listened, check_folder
from rhapsode.cli.progress import spoken_progress
from rhapsode.errors import InvalidRequest, RhapsodeError
from rhapsode.text.book import book_of, read_book
from rhapsode.text.chapters import BookText
from rhapsode.text.duration import estimate_s

if TYPE_CHECKING:
    from rhapsode.audio.book_file import ChapterMark
    from rhapsode.audio.clip import Audio
    from rhapsode.cli.remote import RemoteStream
    from rhapsode.cli.wish import Wish
    from rhapsode.tts import Stream
    from rhapsode.types import Samples

PART_PAUSE_S, CHAPTER_PAUSE_S = 0.6, 1.5
Say = Callable[[str], "Stream | RemoteStream"]
"""Speaks the text of one part."""


@dataclass(frozen=True)
class BookPart:
    """A part of a book: the text of one request, and the file that keeps its audio."""

    text: str
    chapter: int
    file: Path


def say_book(text: str | None, file: Path | None, pattern: str | None, wish: Wish, listened: Listened) -> None:
    """Speaks the parts that have no file yet, then writes the book. After an interruption, complete parts are kept."""
    from rhapsode.audio.book_file import book_format

    if file is None and text is None:
        raise InvalidRequest("a book needs --file: txt, md, html or epub.")
    if file is not None and text is not None:
        raise InvalidRequest("give the text or a file, not both.")
    output = Path(listened.output)
    book_format(output)
    check_folder(output)
    kind = wish.fields.get("input_type") or "text"
    if kind in ("markdown", "html"):  # the chapters are plain text
        wish = replace(wish, fields={name: value for name, value in wish.fields.items() if name != "input_type"})
    book = read_book(file, pattern, kind) if file else book_of(text or "", output.stem, pattern, kind)
    folder = output.with_name(f"{output.name}.part")
    wish = with_seed(wish, book)
    parts = parts_of(book, wish, folder)
    folder.mkdir(exist_ok=True)
    try:
        speak_parts(parts, wish, listened)
        marks = assemble(book, parts, output, wish)
    except (KeyboardInterrupt, RhapsodeError):
        if kept := sum(_frames(part) is not None for part in parts):
            print(f"{kept} of {len(parts)} parts are kept in {folder}; the same command goes on.", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    if not listened.quiet:
        print(f"{output}: {len(marks)} chapters, {marks[-1].end_s / 60:.1f} minutes", file=sys.stderr)


def with_seed(wish: Wish, book: BookText) -> Wish:
    """Returns the wish with a seed: one for all parts, and the same when the command is run again."""
    if "seed" in wish.fields:
        return wish
    seed = int.from_bytes(hashlib.sha256(book.title.encode()).digest()[:4], "big")
    return replace(wish, fields={**wish.fields, "seed": seed})


def parts_of(book: BookText, wish: Wish, folder: Path) -> list[BookPart]:
    """Returns the parts of a book. The name of each file has a hash of everything that affects its audio."""
    references = [(hashlib.sha256(file.read_bytes()).hexdigest(), words) for file, words in wish.cloned]
    fields = {name: value for name, value in wish.fields.items() if name != "loudness"}
    where = wish.place.server or wish.place.model()[1].model_dump_json(exclude={"server"})
    settings = json.dumps([fields, wish.voices, references, wish.options, where], sort_keys=True, default=str)
    parts: list[BookPart] = []
    for index, chapter in enumerate(book.chapters):
        for text in chapter.parts():
            digest = hashlib.sha256(f"{settings}\0{text}".encode()).hexdigest()[:24]
            parts.append(BookPart(text, index, folder / f"{digest}.wav"))
    return parts


def speak_parts(parts: list[BookPart], wish: Wish, listened: Listened) -> None:
    """Speaks all parts that have no file yet. A file is written only once its part is complete."""
    import numpy as np

    from rhapsode.audio.clip import Audio

    left = [part for part in parts if _frames(part) is None]
    if not left:
        return
    expected_s = sum(estimate_s(part.text) for part in left) / float(wish.fields["speed"])
    if len(left) < len(parts) and not listened.quiet:
        print(f"{len(parts) - len(left)} of {len(parts)} parts are there already", file=sys.stderr)
    with speaker(wish, left[0].text, listened) as say, spoken_progress(expected_s, listened.quiet) as advance:
        for part in left:
            with say(part.text) as stream:
                pieces = []
                for chunk in stream:
                    pieces.append(chunk.samples)
                    advance(chunk.duration_s)
            Audio(np.concatenate(pieces, axis=1), stream.sample_rate).save(part.file)


@contextmanager
def speaker(wish: Wish, first: str, listened: Listened) -> Iterator[Say]:
    """Yields a function that speaks a part: with a server, or with a model that is loaded here."""
    wish = replace(wish, fields={name: value for name, value in wish.fields.items() if name != "loudness"})
    if wish.place.server is not None:
        yield wish.remote
        return
    from rhapsode.tts import check

    found, deployment = wish.place.model()
    request = wish.request(first)
    check(found, deployment, request)
    with wish.place.load(found, deployment, listened.quiet) as tts:
        yield lambda text: tts.stream(replace(request, text=text))


def assemble(book: BookText, parts: list[BookPart], output: Path, wish: Wish) -> list[ChapterMark]:
    """Writes the book from its parts; returns its chapters."""
    from rhapsode.audio.book_file import ChapterMark, write_book
    from rhapsode.audio.leveler import Leveler

    first, at_s = _opened(parts[0]), 0.0
    marks: dict[int, ChapterMark] = {}
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        title = book.chapters[part.chapter].title or book.title
        mark = marks.get(part.chapter, ChapterMark(title, at_s, at_s))
        at_s += (_frames(part) or 0) / first.sample_rate + PART_PAUSE_S
        if following is not None and following.chapter != part.chapter:
            at_s += CHAPTER_PAUSE_S  # a chapter lasts until the next one begins
        marks[part.chapter] = replace(mark, end_s=at_s)
    loudness = wish.fields.get("loudness")
    leveler = None if loudness is None else Leveler(loudness, first.sample_rate, first.channels)
    blocks = (block if leveler is None else leveler.write(block) for block in _blocks(parts))
    write_book(output, blocks, first.sample_rate, first.channels, list(marks.values()), tags_of(book, wish))
    return list(marks.values())


def tags_of(book: BookText, wish: Wish) -> dict[str, str]:
    """Returns the tags of the file. Audio from a server is marked in its samples alone, not in tags."""
    tags = {"title": book.title, **({"artist": book.author} if book.author else {})}
    if wish.place.server is not None:
        return tags
    from rhapsode.marking.marker import Marker

    _, deployment = wish.place.model()
    return {**tags, **Marker(deployment.marking).tags()}


def _blocks(parts: list[BookPart]) -> Iterator[Samples]:
    """Yields the audio of all parts, with the pauses between them."""
    from rhapsode.audio.samples import silence

    for index, part in enumerate(parts):
        audio = _opened(part)
        if index and part.chapter != parts[index - 1].chapter:
            yield silence(audio.channels, round(CHAPTER_PAUSE_S * audio.sample_rate))
        yield audio.samples
        yield silence(audio.channels, round(PART_PAUSE_S * audio.sample_rate))


def _frames(part: BookPart) -> int | None:
    """Returns the length of a part in samples; `None` if its file is missing or damaged."""
    try:
        with wave.open(str(part.file)) as file:
            size = file.getnframes() * file.getnchannels() * file.getsampwidth()
            return file.getnframes() if part.file.stat().st_size >= size else None
    except (OSError, EOFError, wave.Error):
        return None


def _opened(part: BookPart) -> Audio:
    from rhapsode.audio.clip import Audio

    return Audio.open(part.file)
