"""Plays audio with a program of this machine, from a file or as a stream, or writes it to standard output."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rhapsode.types import Samples

if TYPE_CHECKING:
    from rhapsode.audio.encode import FileMarks

FILE_PLAYERS = {
    "ffplay": ["-autoexit", "-nodisp", "-loglevel", "error"],
    "mpv": ["--no-video", "--really-quiet"],
    "afplay": [],
    "play": ["-q"],
    "paplay": [],
    "aplay": ["-q"],
}


def find_player() -> str | None:
    return next((name for name in FILE_PLAYERS if shutil.which(name)), None)


def play_file(path: Path) -> None:
    """Plays a file if there is a player. Its errors are ignored: the file is already written."""
    if player := find_player():
        command = [player, *FILE_PLAYERS[player], str(path)]
        with contextlib.suppress(OSError):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


class LivePlayer:
    """Plays samples as they are written. Without a player that reads a stream it does nothing."""

    def __init__(self, sample_rate: int, channels: int) -> None:
        rate, many = str(sample_rate), str(channels)
        commands = {
            "ffplay": [
                "-autoexit",
                "-nodisp",
                "-loglevel",
                "error",
                "-f",
                "s16le",
                "-ar",
                rate,
                "-ac",
                many,
                "-",
            ],
            "play": ["-q", "-t", "raw", "-e", "signed", "-b", "16", "-r", rate, "-c", many, "-"],
            "paplay": ["--raw", "--format=s16le", f"--rate={rate}", f"--channels={many}"],
            "aplay": ["-q", "-t", "raw", "-f", "S16_LE", "-r", rate, "-c", many],
        }
        found = next((name for name in commands if shutil.which(name)), None)
        self._command = [found, *commands[found]] if found else None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._command:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        return self

    def write(self, samples: Samples) -> None:
        from rhapsode.audio.samples import pcm16

        if self._process and self._process.stdin:
            try:
                self._process.stdin.write(pcm16(samples).T.tobytes())  # channels are interleaved
                self._process.stdin.flush()
            except OSError:  # the player has exited: the file is still written
                self._process = None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._process and self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            if kind is not None:
                self._process.terminate()
            self._process.wait()


class StdoutWriter:
    """Encodes samples to standard output as they are written."""

    def __init__(self, format: str, sample_rate: int, channels: int, marks: FileMarks | None) -> None:
        from rhapsode.audio.encode import Encoder

        self._encoder = Encoder(format, sample_rate, channels, marks=marks)

    def __enter__(self) -> Self:
        return self

    def write(self, samples: Samples) -> None:
        self._emit(self._encoder.write(samples))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._emit(self._encoder.close())

    def _emit(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
