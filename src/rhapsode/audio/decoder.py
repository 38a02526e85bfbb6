"""Decodes audio of users in separate processes.

A hostile file can keep a decoder busy for minutes, or crash it. A process can be stopped; a thread cannot.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from rhapsode.audio.decode import MAX_BYTES, MAX_DURATION_S
from rhapsode.errors import BadAudio, Busy, Unavailable
from rhapsode.types import Clip

_START_S = 30.0  # a busy machine takes this long to start a process
_WALL_FACTOR = 10.0  # wall time per second of CPU time: on a busy machine a process gets a small share of a core


@dataclass(frozen=True)
class DecodeLimits:
    """Limits of size, duration and CPU time for one file."""

    max_bytes: int = MAX_BYTES
    max_duration_s: float = MAX_DURATION_S
    max_cpu_s: float = 5.0


class DecoderPool:
    """Up to `workers` decoder processes, started when they are needed; `waiting` further files may be queued."""

    def __init__(
        self, workers: int = 2, limits: DecodeLimits | None = None, waiting: int = 32, *, mono: bool = True
    ) -> None:
        """`mono`: audio is mixed to one channel; otherwise it may have one or two."""
        self._limits = limits or DecodeLimits()
        self._mono = mono
        self._most = workers + waiting
        self._inside = 0
        self._closed = False
        self._changed = threading.Condition()
        self._all = [_Decoder() for _ in range(workers)]
        self._idle = deque(self._all)

    def decode(self, data: bytes) -> Clip:
        """Returns the audio; `BadAudio` if it cannot be decoded within the limits. Blocks."""
        if len(data) > self._limits.max_bytes:
            raise BadAudio(f"The audio is too large: {len(data)} bytes, where {self._limits.max_bytes} are allowed.")
        decoder = self._take()
        try:
            return decoder.decode(data, self._limits, self._mono)
        finally:
            with self._changed:
                self._inside -= 1
                self._idle.append(decoder)
                self._changed.notify()

    def processes(self) -> list[int]:
        """Returns the ids of the processes that are running."""
        return [decoder.process.pid for decoder in self._all if decoder.process is not None]

    def close(self) -> None:
        """Ends all processes, including those that are decoding."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for decoder in self._all:
            decoder.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self) -> _Decoder:
        with self._changed:
            if self._inside >= self._most:
                raise Busy("too much reference audio is waiting to be decoded.")
            self._inside += 1
            self._changed.wait_for(lambda: self._idle or self._closed)
            if self._closed:
                self._inside -= 1
                raise BadAudio("The audio was not decoded: the server is shutting down.")
            return self._idle.popleft()


class _Decoder:
    """One decoder process. If it has ended, the next file starts it again."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def decode(self, data: bytes, limits: DecodeLimits, mono: bool) -> Clip:
        process = self._started()
        timer = threading.Timer(_START_S + _WALL_FACTOR * limits.max_cpu_s, process.kill)
        timer.start()
        try:
            return _exchange(process, data, limits, mono)
        except (OSError, EOFError, ValueError):  # the process was stopped, or crashed
            self.stop()
            raise BadAudio("The audio takes too long to decode, or its decoder failed.") from None
        finally:
            timer.cancel()

    def stop(self) -> None:
        with self._lock:
            process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self.process is None:
                command = [sys.executable, "-P", "-m", "rhapsode.audio.decoder_worker"]
                try:
                    self.process = subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                        env={**os.environ, "OMP_NUM_THREADS": "1"},
                        start_new_session=True,  # Ctrl-C reaches the server alone, which then ends this process
                    )
                except OSError as error:
                    raise Unavailable(f"no process to decode audio can be started: {error.strerror}.") from None
            return self.process


def _exchange(process: subprocess.Popen[bytes], data: bytes, limits: DecodeLimits, mono: bool) -> Clip:
    assert process.stdin is not None
    assert process.stdout is not None
    job = {"bytes": len(data), "mono": mono, **vars(limits)}
    process.stdin.write(json.dumps(job).encode() + b"\n")
    process.stdin.write(data)
    process.stdin.flush()
    found = json.loads(process.stdout.readline() or "null")
    if found is None:
        raise EOFError
    if "error" in found:
        raise BadAudio(found["error"])
    raw = process.stdout.read(found["bytes"])
    if len(raw) != found["bytes"]:
        raise EOFError
    return Clip(np.frombuffer(raw, np.float32).reshape(found["channels"], -1), found["rate"])
