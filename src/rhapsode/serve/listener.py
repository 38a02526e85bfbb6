"""One listener: the client of a request, and how far it has read the audio that was sent to it."""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar

if sys.platform != "win32":
    import fcntl
    import termios

MOST_PIECES = 256
_INT = struct.Struct("i")


class Listener:
    """Compares what a client has read with what it would have played by now, if it plays from the first byte on.

    Bytes count as read once the client's machine has acknowledged them. What waits in its receive buffer, usually 64 KB
    if it never reads, cannot be seen from here.
    """

    def __init__(
        self,
        client: str,
        unread_bytes: Callable[[], int] = lambda: 0,
        reset: Callable[[], None] = lambda: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`unread_bytes` returns how much of what was written to the connection is not acknowledged; `reset` ends the
        connection."""
        self.client = client
        self.reset = reset
        self._unread_bytes = unread_bytes
        self._clock_s = clock_s
        self._written = 0  # bytes
        self._audio_s = 0.0  # in them
        self._dry_at_s = 0.0  # when all audio that was sent has been played
        self._pieces: deque[tuple[int, float]] = deque()  # that may be unread: bytes and audio up to their ends
        self._read = (0, 0.0)  # the end of the last piece that was read

    def wrote(self, size: int) -> None:
        """Notes that so many bytes were written to the connection: audio, and what surrounds it."""
        self._written += size

    def sent(self, audio_s: float) -> None:
        """Notes that what was written last carries so much audio."""
        self._dry_at_s = max(self._dry_at_s, self._clock_s()) + audio_s
        self._audio_s += audio_s
        self._pieces.append((self._written, self._audio_s))
        if len(self._pieces) > MOST_PIECES:
            self._forget_read()
        if len(self._pieces) > MOST_PIECES:  # nobody reads: each two become one, so that memory stays bounded
            self._pieces = deque(list(self._pieces)[::-2][::-1])

    def lag_s(self) -> float:
        """Returns how many seconds of audio should have been played but have not even been read; negative if the
        client is ahead."""
        unread_s = self._audio_s - self._heard_s()
        return unread_s - max(0.0, self._dry_at_s - self._clock_s())

    def _heard_s(self) -> float:
        """Returns how much audio was read."""
        read = self._forget_read()
        if not self._pieces:
            return self._audio_s
        (begin, begin_s), (end, end_s) = self._read, self._pieces[0]
        part = (read - begin) / max(1, end - begin)
        return begin_s + (end_s - begin_s) * min(1.0, max(0.0, part))

    def _forget_read(self) -> int:
        """Forgets the pieces that were read; returns how many bytes were read."""
        read = self._written - self._unread_bytes()
        while self._pieces and self._pieces[0][0] <= read:
            self._read = self._pieces.popleft()
        return read


listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
"""Who listens to what the current request speaks."""


def wrote(size: int) -> None:
    """Notes that so many bytes were written for the current request's listener."""
    if (listening := listener.get()) is not None:
        listening.wrote(size)


def unread_bytes(transport: asyncio.WriteTransport) -> int:
    """Returns how many of the bytes written to a connection its client has not acknowledged."""
    in_kernel = 0 if sys.platform == "win32" else _in_kernel(transport, termios.TIOCOUTQ)
    return transport.get_write_buffer_size() + in_kernel


def unreceived_bytes(transport: asyncio.BaseTransport) -> int:
    """Returns how many bytes of a client have arrived that were not read from the kernel yet."""
    return 0 if sys.platform == "win32" else _in_kernel(transport, termios.FIONREAD)


def _in_kernel(transport: asyncio.BaseTransport, question: int) -> int:
    connection = transport.get_extra_info("socket")
    if sys.platform == "win32" or connection is None:
        return 0
    try:
        return int(_INT.unpack(fcntl.ioctl(connection.fileno(), question, _INT.pack(0)))[0])
    except (OSError, ValueError):  # it is closed
        return 0
