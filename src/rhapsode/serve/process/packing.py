"""Serialises messages. Each write has a header (the number of parts, the size of each), then the parts.

The first part is the pickle of all messages of the write. The other parts are arrays, such as audio. They are not
copied into the pickle: to pickle a second of audio for each of 512 listeners would hold Python's lock, and so block the
device loop, for tens of milliseconds.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pickle
import select
import socket
import struct
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

_NUMBER = struct.Struct("<Q")
MOST_PARTS = 512
"""Parts that one system call may write."""
ROOM = 1 << 20
"""The most bytes that are read at once. Few large reads are better, since each read releases Python's lock."""

Parts = list[bytes | memoryview]


def packed(messages: Sequence[Any]) -> Parts:
    """Returns the parts of one write of these messages: the header, the pickle and the arrays."""
    buffers: list[pickle.PickleBuffer] = []
    parts: Parts = [pickle.dumps(list(messages), protocol=5, buffer_callback=buffers.append)]
    parts += (buffer.raw() for buffer in buffers)
    return [struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts)), *parts]


def send(end: socket.socket, parts: Parts) -> Parts:
    """Writes as much as one system call takes, and waits until it takes some; returns the rest."""
    try:
        sent = end.sendmsg(parts[:MOST_PARTS])
    except BlockingIOError:  # uvloop makes the sockets that it reads non-blocking
        room = select.poll()
        room.register(end, select.POLLOUT)
        room.poll()
        return parts
    done = 0
    while done < len(parts) and sent >= len(parts[done]):
        sent -= len(parts[done])
        done += 1
    return [memoryview(parts[done])[sent:], *parts[done + 1 :]] if sent else parts[done:]


def send_now(end: socket.socket, parts: Parts) -> Parts:
    """Writes as much as the connection takes at once, without releasing Python's lock; returns the rest.

    Python's own socket calls release the lock. The thread that then takes it keeps it for longer than the write lasts.
    """
    data = b"".join(parts)
    sent = _c_library().send(end.fileno(), data, len(data), socket.MSG_DONTWAIT)
    if sent < 0:
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EWOULDBLOCK):
            raise OSError(number, os.strerror(number))
        sent = 0
    return [memoryview(data)[sent:]] if sent < len(data) else []


@cache
def _c_library() -> ctypes.PyDLL:
    library = ctypes.PyDLL(None, use_errno=True)
    library.send.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    library.send.restype = ctypes.c_ssize_t
    return library


class Inflow:
    """The receiving side: splits the bytes that arrive into messages."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._room = memoryview(bytearray(ROOM))
        self._data = bytearray()  # bytes of a write that has not arrived completely

    def read(self, flags: int = 0) -> list[Any] | None:
        """Reads what has arrived, or waits for it; returns complete messages, or None at the end of the connection."""
        size = self._end.recv_into(self._room, 0, flags)
        if not size:
            return None
        self._data += self._room[:size]
        messages: list[Any] = []
        while of_one_write := self._next():
            messages += of_one_write
        return messages

    def _next(self) -> list[Any]:
        """Returns the messages of the next write, or an empty list if it has not arrived completely."""
        data = self._data
        if len(data) < _NUMBER.size:
            return []
        (count,) = _NUMBER.unpack_from(data)
        start = _NUMBER.size * (count + 1)
        if len(data) < start:
            return []
        ends = [*accumulate(struct.unpack_from(f"<{count}Q", data, _NUMBER.size), initial=start)]
        if len(data) < ends[-1]:
            return []
        body, *buffers = (data[begin:end] for begin, end in pairwise(ends))
        del data[: ends[-1]]
        messages: list[Any] = pickle.loads(body, buffers=buffers)
        return messages
