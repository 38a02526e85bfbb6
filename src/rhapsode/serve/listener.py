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
        self._sent: deque[tuple[int, float]] = deque()  # pieces that may be unread: their bytes and seconds
        self._dry_at_s = 0.0  # when all audio that was sent has been played

    def sent(self, size: int, audio_s: float) -> None:
        """Notes that bytes with so much audio were written to the connection."""
        self._dry_at_s = max(self._dry_at_s, self._clock_s()) + audio_s
        self._sent.append((size, audio_s))
        if len(self._sent) > MOST_PIECES:
            self._forget_read()

    def lag_s(self) -> float:
        """Returns how many seconds of audio should have been played but have not even been read; negative if the
        client is ahead."""
        not_due_s = max(0.0, self._dry_at_s - self._clock_s())
        unread, unread_s = self._unread_bytes(), 0.0
        for size, audio_s in reversed(self._sent):  # what was sent last is read last
            if unread <= 0:
                break
            unread_s += audio_s * min(1.0, unread / max(size, 1))
            unread -= size
        return unread_s - not_due_s

    def _forget_read(self) -> None:
        """Forgets the pieces that were read. If many are unread, each two become one: memory stays bounded."""
        unread, kept = self._unread_bytes(), 0
        for size, _ in reversed(self._sent):
            if unread <= 0:
                break
            unread -= size
            kept += 1
        pieces = list(self._sent)[len(self._sent) - kept :]
        if kept > MOST_PIECES // 2:
            pairs = (pieces[start : start + 2] for start in range(0, kept, 2))
            pieces = [(sum(size for size, _ in pair), sum(audio_s for _, audio_s in pair)) for pair in pairs]
        self._sent = deque(pieces)


listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
"""Who listens to what the current request speaks."""


def unread_bytes(transport: asyncio.WriteTransport) -> int:
    """Returns how many of the bytes written to a connection its client has not acknowledged."""
    return transport.get_write_buffer_size() + _in_kernel(transport)


def _in_kernel(transport: asyncio.WriteTransport) -> int:
    connection = transport.get_extra_info("socket")
    if sys.platform == "win32" or connection is None:
        return 0
    try:
        return int(_INT.unpack(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, _INT.pack(0)))[0])
    except (OSError, ValueError):  # it is closed
        return 0
