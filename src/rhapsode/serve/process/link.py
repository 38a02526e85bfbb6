"""Messages between two processes that trust each other, over a pair of sockets: many that wait go in one write.

Audio is neither copied nor pickled: it travels behind the messages as it is. Pickling a second of it for each of 512
listeners at once would hold the interpreter's lock, and with it the device loop, for tens of milliseconds.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BufferedReader
from typing import Any

from rhapsode.engine.wake_ups import hold

_SIZE = struct.Struct("<Q")
FEW, MANY = 4, 32
"""More messages than the first are made into bytes by the link's own thread: the one that sends them has other work.
More than the second go in several writes: others want the interpreter's lock in between."""
MOST_PARTS = 512
"""Parts that one system call may write."""

Parts = list[bytes | memoryview]


def _packed(messages: Sequence[Any]) -> Parts:
    """Returns what is written for these messages: a header (the number of parts, the size of each), then the parts.

    The first part is the pickle; the others are large arrays, such as audio, which are not copied into it.
    """
    buffers: list[pickle.PickleBuffer] = []
    parts: Parts = [pickle.dumps(list(messages), protocol=5, buffer_callback=buffers.append)]
    parts += (buffer.raw() for buffer in buffers)
    return [struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts)), *parts]


def _unpacked(stream: BufferedReader) -> list[Any] | None:
    """Reads the next messages; None at the end."""
    head = stream.read(_SIZE.size)
    if not head:
        return None
    (count,) = _SIZE.unpack(head)
    body, *buffers = [_exactly(stream, size) for size in struct.unpack(f"<{count}Q", _exactly(stream, 8 * count))]
    messages: list[Any] = pickle.loads(body, buffers=buffers)
    return messages


def _exactly(stream: BufferedReader, size: int) -> bytearray:
    """Reads so many bytes; raises EOFError if there are fewer."""
    data = bytearray(size)
    if stream.readinto(data) != size:
        raise EOFError
    return data


def _send(end: socket.socket, parts: Parts, flags: int = 0) -> Parts:
    """Writes as much as one system call takes; returns the rest."""
    sent = end.sendmsg(parts[:MOST_PARTS], [], flags)
    done = 0
    while done < len(parts) and sent >= len(parts[done]):
        sent -= len(parts[done])
        done += 1
    return [memoryview(parts[done])[sent:], *parts[done + 1 :]] if sent else parts[done:]


class Link:
    """One end. Sending never waits; what arrives is handed on by a thread, in order, as many as came together."""

    def __init__(
        self, end: socket.socket, on_messages: Callable[[list[Any]], None], on_closed: Callable[[], None]
    ) -> None:
        """`on_closed` is called once, when the other end is gone and all that it sent was handed on."""
        self._end = end
        self._on_messages, self._on_closed = on_messages, on_closed
        self._soon: list[Any] = []  # of this turn of the event loop
        self._due: list[Any] = []
        self._rest: Parts = []  # of messages that were written in part
        self._is_writing = False
        self._changed = threading.Condition()
        self._closing = False
        self._reader = threading.Thread(target=self._read, name="rhapsode-link-in", daemon=True)
        self._writer = threading.Thread(target=self._write, name="rhapsode-link-out", daemon=True)

    def start(self) -> None:
        self._reader.start()
        self._writer.start()

    def send(self, *messages: Any) -> None:
        """Sends messages soon, and those of a turn of the device loop, or of an event loop, together."""
        if hold(self, messages):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.wake(*messages)
            return
        with self._changed:
            self._soon += messages
            is_first = len(self._soon) == len(messages)
        if is_first:
            loop.call_soon(self.wake)

    def wake(self, *messages: Any) -> None:
        """Sends messages now, after those that the event loop has still to send."""
        with self._changed:
            messages, self._soon = (*self._soon, *messages), []
            if not messages:
                return
            if self._rest or self._due or self._is_writing or self._closing or len(messages) > FEW:
                self._due += messages
                self._changed.notify()
                return
            self._is_writing = True
        self._write_at_once(messages)

    def close(self) -> None:
        """Sends what waits, and then ends the connection."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._writer.is_alive():
            self._writer.join()
        self._end.close()

    def _write_at_once(self, messages: Sequence[Any]) -> None:
        """Writes without the detour through another thread, as much as the connection takes; the rest follows."""
        rest: Parts = []
        try:
            rest = _packed(messages)
            rest = _send(self._end, rest, socket.MSG_DONTWAIT)
        except OSError:
            pass  # it is full; or the other end is gone, which the reader learns
        finally:
            self._written(rest)

    def _written(self, rest: Parts) -> None:
        """Lets others write, after the rest of what was written in part."""
        with self._changed:
            self._is_writing, self._rest = False, rest
            self._changed.notify()

    def _write(self) -> None:
        try:
            while parts := self._wait():
                while parts:
                    parts = _send(self._end, parts)
                self._written([])
        except OSError:
            pass  # the reader learns that the other end is gone
        finally:
            with suppress(OSError):
                self._end.shutdown(socket.SHUT_RDWR)

    def _wait(self) -> Parts:
        """Returns what is to be written next; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing and (self._rest or self._due or self._closing))
            rest, due = self._rest, self._due[:MANY]
            if not (rest or due):
                return []
            self._due, self._is_writing = self._due[MANY:], True
        return rest + _packed(due) if due else rest

    def _read(self) -> None:
        try:
            with self._end.makefile("rb") as stream:
                while (messages := _unpacked(stream)) is not None:
                    self._on_messages(messages)
        except (OSError, EOFError, pickle.UnpicklingError, struct.error):
            pass  # it ended in the middle of a message
        finally:
            self._on_closed()
