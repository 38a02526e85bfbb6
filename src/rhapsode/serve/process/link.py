"""Messages between two processes that trust each other, over a pair of sockets: all that wait go in one write."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from rhapsode.engine.wake_ups import hold

_SIZE = struct.Struct("<Q")
FEW = 4
"""More messages than this are made into bytes by the link's own thread: the one that sends them has other work."""


def _frame(messages: Sequence[Any]) -> bytes:
    body = pickle.dumps(list(messages), protocol=5)
    return _SIZE.pack(len(body)) + body


class Link:
    """One end. Sending never waits; what arrives is handed on by a thread, in order, as many as came together."""

    def __init__(
        self, end: socket.socket, on_messages: Callable[[list[Any]], None], on_closed: Callable[[], None]
    ) -> None:
        """`on_closed` is called once, when the other end is gone and all that it sent was handed on."""
        self._end = end
        self._on_messages, self._on_closed = on_messages, on_closed
        self._due: list[Any] = []
        self._rest = b""  # of messages that were written in part
        self._is_writing = False
        self._changed = threading.Condition()
        self._closing = False
        self._reader = threading.Thread(target=self._read, name="rhapsode-link-in", daemon=True)
        self._writer = threading.Thread(target=self._write, name="rhapsode-link-out", daemon=True)

    def start(self) -> None:
        self._reader.start()
        self._writer.start()

    def send(self, *messages: Any) -> None:
        """Sends messages soon, and those of a turn of the device loop together."""
        if not hold(self, messages):
            self.wake(*messages)

    def wake(self, *messages: Any) -> None:
        with self._changed:
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
        rest = b""
        try:
            rest = _frame(messages)
            rest = rest[self._end.send(rest, socket.MSG_DONTWAIT) :]
        except OSError:
            pass  # it is full; or the other end is gone, which the reader learns
        finally:
            self._written(rest)

    def _written(self, rest: bytes = b"") -> None:
        """Lets others write, after the rest of what was written in part."""
        with self._changed:
            self._is_writing, self._rest = False, rest
            self._changed.notify()

    def _write(self) -> None:
        try:
            while (frames := self._wait()) is not None:
                self._end.sendall(frames)
                self._written()
        except OSError:
            pass  # the reader learns that the other end is gone
        finally:
            with suppress(OSError):
                self._end.shutdown(socket.SHUT_RDWR)

    def _wait(self) -> bytes | None:
        """Returns what is to be written next; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing and (self._rest or self._due or self._closing))
            rest, due = self._rest, self._due
            if not (rest or due):
                return None
            self._due, self._is_writing = [], True
        return rest + _frame(due) if due else rest

    def _read(self) -> None:
        try:
            with self._end.makefile("rb") as stream:
                while head := stream.read(_SIZE.size):
                    self._on_messages(pickle.loads(stream.read(_SIZE.unpack(head)[0])))
        except (OSError, EOFError, pickle.UnpicklingError, struct.error):
            pass  # it ended in the middle of a message
        finally:
            self._on_closed()
