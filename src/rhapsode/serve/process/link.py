"""Exchanges messages between two processes that trust each other, over a pair of sockets.

Messages are pickled. Those that are pending at the same time are sent in one write.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from rhapsode.serve.process.packing import Inflow, Parts, packed, send, send_now
from rhapsode.waiting.wake_ups import hold

MANY = 64
"""More messages than this are serialised by the link's own thread, in several writes: the thread that sends them has
other work, and other threads need Python's lock in between."""


class Link:
    """One end of the connection. Sending never waits for the other end. Messages that arrive are passed on in order;
    those that arrive together are passed on in one call."""

    def __init__(
        self, end: socket.socket, on_messages: Callable[[list[Any]], None], on_closed: Callable[[], None]
    ) -> None:
        """`on_closed` is called once, when the other end is gone and all its messages have been passed on."""
        self._end = end
        self._on_messages, self._on_closed = on_messages, on_closed
        self._soon: list[Any] = []  # messages of this iteration of the event loop
        self._due: list[Any] = []  # messages for the thread that writes
        self._rest: Parts = []  # bytes of messages that were written in part
        self._is_writing = False
        self._changed = threading.Condition()
        self._closing = False
        self._inflow = Inflow(end)
        self._loop: asyncio.AbstractEventLoop | None = None  # the event loop that reads, if no thread does
        self._writer = threading.Thread(target=self._write, name="rhapsode-link-out", daemon=True)
        self._writer.start()

    def read_in_thread(self) -> None:
        """Starts a thread that reads messages and passes them on to `on_messages`."""
        threading.Thread(target=self._read, name="rhapsode-link-in", daemon=True).start()

    def read_in_loop(self) -> None:
        """Has the running event loop read instead of a thread: beside a busy event loop, a thread would get Python's
        lock late."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._end, self._read_some)

    def send(self, *messages: Any) -> None:
        """Sends messages soon. Those of one turn of the device loop, or of one iteration of an event loop, are sent
        together."""
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
        """Sends messages now, after those that are pending in the event loop."""
        with self._changed:
            messages, self._soon = (*self._soon, *messages), []
            if not messages:
                return
            if self._rest or self._due or self._is_writing or self._closing or len(messages) > MANY:
                self._due += messages
                self._changed.notify()
                return
            self._is_writing = True
        self._write_at_once(messages)

    def cut(self) -> None:
        """Ends the connection without waiting for the other end, as if that were gone. `on_closed` is called soon."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Writes all pending messages, then closes the connection."""
        with self._changed:
            self._due, self._soon = [*self._due, *self._soon], []
            self._closing = True
            self._changed.notify()
        self._writer.join()
        loop = self._loop  # read once, since the event loop may end the connection meanwhile
        if loop is None or loop.is_closed():
            self._end.close()
        else:
            loop.call_soon_threadsafe(self._ended)

    def _write_at_once(self, messages: Sequence[Any]) -> None:
        """Writes in the calling thread, as much as the connection takes at once; the writer's thread sends the rest."""
        rest: Parts = []
        try:
            rest = send_now(self._end, packed(messages))
        except OSError:
            pass  # the other end is gone: the reader notices that, too
        finally:
            self._written(rest)

    def _written(self, rest: Parts) -> None:
        """Ends a write. Other threads may write again, once `rest`, which did not fit, has been written."""
        with self._changed:
            self._is_writing, self._rest = False, rest
            if rest or self._due or self._closing:
                self._changed.notify()

    def _write(self) -> None:
        try:
            while parts := self._wait():
                while parts:
                    parts = send(self._end, parts)
                self._written([])
        except (OSError, ValueError):  # ValueError if the reader has closed the socket
            pass  # the reader notices that the other end is gone
        finally:
            with suppress(OSError):
                self._end.shutdown(socket.SHUT_RDWR)

    def _wait(self) -> Parts:
        """Waits for something to write, and returns it; an empty list once all is written and the link closes."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing and (self._rest or self._due or self._closing))
            rest, due = self._rest, self._due[:MANY]
            if not (rest or due):
                return []
            self._due, self._is_writing = self._due[MANY:], True
        return rest + packed(due) if due else rest

    def _read(self) -> None:
        while (messages := self._arrived()) is not None:
            if messages:
                self._on_messages(messages)
        self._on_closed()

    def _read_some(self) -> None:
        messages = self._arrived(socket.MSG_DONTWAIT)
        if messages is None:
            self._ended()
        elif messages:
            self._on_messages(messages)

    def _arrived(self, flags: int = 0) -> list[Any] | None:
        """Reads what the other end has sent, and returns its complete messages; None if the connection is closed."""
        try:
            return self._inflow.read(flags)
        except BlockingIOError:
            return []
        except (OSError, pickle.UnpicklingError, struct.error):
            return None  # it ended in the middle of a message

    def _ended(self) -> None:
        """Ends the connection in the event loop that reads it, once; called when nothing more will arrive."""
        if self._loop is not None:
            self._loop.remove_reader(self._end)
            self._loop = None
            self._end.close()
            self._on_closed()
