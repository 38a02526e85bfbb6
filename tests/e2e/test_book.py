"""Books: chapter marks that players read, and an interrupted book that goes on as if nothing had happened."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import av
import mutagen
import numpy as np
import pytest
from mutagen.flac import FLAC
from mutagen.id3 import ID3
from mutagen.mp4 import MP4

from e2e.chapter_track import read_chapter_track
from rhapsode.audio.clip import Audio
from rhapsode.cli.book import parts_of
from rhapsode.cli.wish import SpeakingPlace, Wish
from rhapsode.text.book import split_chapters
from rhapsode.text.chapters import BookText
from unit.command import environment, rhapsode

WISH = Wish({"speed": 1.0, "seed": 1}, [], [], {}, SpeakingPlace(None, {"model": "dummy"}, None, None))
TEXT = "Chapter 1\n\nIt was late.\n\nChapter 2\n\nIt was over.\n"


def say_book(folder: Path, output: str, *arguments: str, model: str = "dummy") -> subprocess.CompletedProcess[bytes]:
    (folder / "book.txt").write_text(TEXT)
    command = ("say", "-m", model, "--file", "book.txt", "--book", "-o", output, "--quiet", *arguments)
    return rhapsode(*command, cwd=folder, timeout_s=110)


def chapters(file: Path) -> list[tuple[str, float, float]]:
    with av.open(str(file)) as container:
        return [
            (c["metadata"]["title"], float(c["start"] * c["time_base"]), float(c["end"] * c["time_base"]))
            for c in container.chapters()
        ]


def marks_by_another_reader(file: Path) -> list[tuple[str, float]]:
    """Title and start of each chapter in the order of the file, read with Mutagen: not by FFmpeg, which wrote them."""
    if file.suffix == ".m4b":  # Nero's list
        return [(chapter.title, chapter.start) for chapter in MP4(file).chapters]
    if file.suffix == ".mp3":
        tags = ID3(file)
        (contents,) = tags.getall("CTOC")
        frames = [tags[f"CHAP:{name}"] for name in contents.child_element_ids]
        return [(frame.sub_frames["TIT2"].text[0], frame.start_time / 1000) for frame in frames]
    tags = FLAC(file) if file.suffix == ".flac" else mutagen.File(file)
    names = sorted(name for name in tags if name.lower().startswith("chapter") and not name.lower().endswith("name"))
    clocks = [[float(part) for part in tags[name][0].split(":")] for name in names]
    return [
        (tags[f"{name}name"][0], hours * 3600 + minutes * 60 + seconds)
        for name, (hours, minutes, seconds) in zip(names, clocks, strict=True)
    ]


@pytest.mark.parametrize(
    "output",
    ["book.m4b", *(pytest.param(name, marks=pytest.mark.slow) for name in ("book.mp3", "book.opus", "book.flac"))],
)
def test_a_book_has_its_chapters_in_every_format_that_has_any(tmp_path: Path, output: str) -> None:
    done = say_book(tmp_path, output)
    assert done.returncode == 0, done.stderr.decode()
    (first, start_s, end_s), (second, second_s, last_s) = chapters(tmp_path / output)
    assert (first, second, start_s) == ("Chapter 1", "Chapter 2", 0.0)
    expected_s = len("Chapter 1It was late.") * 0.08 + 2 * 0.6 + 1.5
    assert second_s == pytest.approx(expected_s, abs=0.02)
    assert end_s == pytest.approx(expected_s, abs=0.02)
    assert last_s == pytest.approx(Audio.open(tmp_path / output).duration_s, abs=0.15)
    expected = [("Chapter 1", 0.0), ("Chapter 2", pytest.approx(expected_s, abs=0.02))]
    assert marks_by_another_reader(tmp_path / output) == expected
    if output == "book.m4b":
        assert read_chapter_track(tmp_path / output) == expected
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["book.txt", output])


def test_a_wav_book_is_the_parts_with_their_pauses(tmp_path: Path) -> None:
    done = say_book(tmp_path, "book.wav", "--loudness", "-20")
    assert done.returncode == 0, done.stderr.decode()
    letters = len("Chapter 1It was late.Chapter 2It was over.")
    assert Audio.open(tmp_path / "book.wav").duration_s == pytest.approx(letters * 0.08 + 4 * 0.6 + 1.5, abs=0.001)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Hello.", "-o", "book.m4b", "--file", "book.txt"), "not both"),
        (("-o", "book.m4b"), "a book needs --file"),
        (("-o", "book.aac", "--book", "--file", "book.txt"), "end it in one of .m4b, .mp3, .opus, .flac, .wav"),
        (("-o", "book.m4b", "--file", "book.txt", "--chapter-pattern", "("), "not a regular expression"),
        (("-o", "book.m4b", "--file", "book.txt", "--voice", "nobody"), "no voice 'nobody'"),
    ],
)
def test_what_is_wrong_is_told_first(tmp_path: Path, arguments: tuple, message: str) -> None:
    (tmp_path / "book.txt").write_text(TEXT)
    done = rhapsode("say", "-m", "dummy", *arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert message in done.stderr.decode()
    assert [file.name for file in tmp_path.iterdir()] == ["book.txt"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_interrupted_book_goes_on_with_the_same_voice_and_the_same_result(tmp_path: Path) -> None:
    """The default voice, interrupted with Ctrl-C after its first part."""
    (tmp_path / "book.txt").write_text(TEXT)
    (tmp_path / "exact.yaml").write_text("{deterministic: true, device: cpu}")  # else chunks are rounded by their sizes
    command = [sys.executable, "-m", "rhapsode", "say", "--file", "book.txt", "-o", "book.m4b", "-c", "exact.yaml"]
    env = environment(OMP_NUM_THREADS="1")
    folder = tmp_path / "book.m4b.part"
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE) as process:
        deadline_s = time.monotonic() + 100
        while not list(folder.glob("*.wav")):
            assert time.monotonic() < deadline_s
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        told = process.stderr.read().decode()
        assert process.wait(60) in (130, 0)
    if process.returncode == 130:
        assert "parts are kept" in told
        assert "the same command goes on" in told
        assert not (tmp_path / "book.m4b").exists()
        kept = {file.name: file.stat().st_mtime_ns for file in folder.glob("*.wav")}
        assert 1 <= len(kept) < 4
        (folder / "other.wav").write_bytes(b"RIFF")  # of another text: it is ignored
        again = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=100, check=False)
        assert again.returncode == 0, again.stderr.decode()
        assert f"{len(kept)} of 4 parts are there already" in again.stderr.decode()
    assert not folder.exists()
    resumed = Audio.open(tmp_path / "book.m4b")
    (tmp_path / "book.m4b").unlink()
    whole = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=100, check=False)
    assert whole.returncode == 0, whole.stderr.decode()
    assert np.array_equal(Audio.open(tmp_path / "book.m4b").samples, resumed.samples)
    assert [title for title, _, _ in chapters(tmp_path / "book.m4b")] == ["Chapter 1", "Chapter 2"]


def test_after_a_change_only_what_changed_is_spoken_again(tmp_path: Path) -> None:
    folder = tmp_path / "book.m4b.part"
    book = read_text_book(TEXT)
    before, after = (parts_of(read_text_book(text), WISH, folder) for text in (TEXT, TEXT.replace("late", "early")))
    assert len(before) == len(after) == 4
    assert [one.file == other.file for one, other in zip(before, after, strict=True)] == [True, False, True, True]
    faster = replace(WISH, fields={**WISH.fields, "speed": 1.5})
    assert not {part.file for part in before} & {part.file for part in parts_of(book, faster, folder)}


def read_text_book(text: str) -> BookText:
    return BookText("book", split_chapters(text))


def test_a_markdown_file_becomes_a_book_with_its_first_heading_as_title(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(
        "# The *Lighthouse*\n\n## One\n\nIt was **late**.\n\n```\ncode\n```\n\n## Two\n\nBye."
    )
    done = rhapsode("say", "-m", "dummy", "-f", "notes.md", "-o", "notes.m4b", "-q", "--no-play", cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert [title for title, _, _ in chapters(tmp_path / "notes.m4b")] == ["The Lighthouse", "One", "Two"]
    assert MP4(tmp_path / "notes.m4b").tags["\xa9nam"] == ["The Lighthouse"]


def test_a_name_of_a_script_without_a_voice_is_told_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "talk.txt").write_text("[anna]: Hello.\n[high]: Hi.\n")
    done = rhapsode("say", "-m", "dummy", "--script", "talk.txt", "--no-play", cwd=tmp_path)
    assert done.returncode == 2
    assert "--voice anna=VOICE" in done.stderr.decode()
