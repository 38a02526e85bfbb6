"""A WebSocket with limits of time and memory.

A message counts in the budget of uploads beyond 16 KiB, while it arrives and until the session asks for the
next one. It has at most `max_json_bytes`; more only while the session says that it would take a reference.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

from rhapsode.config.server import ServerConfig
from rhapsode.errors import Busy
from rhapsode.serve.budget import Account, Budget
from rhapsode.serve.client import client_of
from rhapsode.serve.listener import unread_bytes
from rhapsode.serve.receiving import Receiving
from rhapsode.serve.stall import Stall, reset

FREE_BYTES = 2**14
"""Of a connection: they count in no budget, so that a short message costs nothing and is never refused."""
MOST_SMALL_FRAGMENTS = 2**10
SMALL_FRAGMENT_BYTES = 2**10
MOST_CONTROL_FRAMES = 64
"""In one read of a few kilobytes."""

log = logging.getLogger("rhapsode.serve")


class SocketConnection(WebSocketsSansIOProtocol):
    def __init__(self, limits: ServerConfig, uploads: Budget, **uvicorn_gives: Any) -> None:
        super().__init__(**uvicorn_gives)
        self._stall = Stall(self.loop, limits.max_request_s)
        self._receiving = Receiving(self.loop, limits.receive_timeout_s)
        self._uploads = uploads
        self._account: Account | None = None
        self._small_bytes = self._most_bytes = min(limits.max_json_bytes, self.config.ws_max_size)
        self._message = bytearray()
        self._fragments = self._control_frames = 0
        self._waiting_bytes = 0
        """Of complete messages that the session has not handled yet."""

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if "scope" in vars(self):  # the request was a good one
            self.scope["state"]["reset"] = partial(reset, self.transport)
            self.scope["state"]["unread_bytes"] = partial(unread_bytes, self.transport)
            self.scope["state"]["expect_reference"] = self._expect_reference

    def connection_lost(self, exc: Exception | None) -> None:
        self._stall.end()
        self.conn.reader.buffer.clear()  # the connection's objects wait for the garbage collector, which runs rarely
        self._release()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin(self.transport)
        if self._account is not None:
            self._account.offer()  # the session may wait for this client, and keep its message, for minutes

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.end()
        if self._account is not None and not self._unfinished():
            self._account.finish()

    # --- messages ---

    def data_received(self, data: bytes) -> None:
        self._receiving.add(len(data))
        self._control_frames = 0
        super().data_received(data)
        unfinished = self._unfinished()
        if self.close_sent or self.transport.is_closing():
            self._release()
        elif unfinished > self._most_bytes:
            self._refuse(CloseCode.MESSAGE_TOO_BIG, f"a message has at most {self._most_bytes} bytes here.")
        elif self._fragments > MOST_SMALL_FRAGMENTS + len(self._message) / SMALL_FRAGMENT_BYTES:
            self._refuse(CloseCode.POLICY_VIOLATION, "a message has too many small fragments.")
        elif self._control_frames > MOST_CONTROL_FRAMES:
            self._refuse(CloseCode.POLICY_VIOLATION, "there are too many pings.")
        else:
            self._send_pong()
            self._watch(unfinished)
            self._charge(unfinished)

    async def receive(self) -> Any:
        if self.queue.empty():  # all messages so far have been handled
            self._waiting_bytes = 0
            self._charge(self._unfinished())
        return await super().receive()

    def handle_text(self, event: Any) -> None:
        self.curr_msg_data_type = "text"
        self._begin(event)

    def handle_bytes(self, event: Any) -> None:
        self.curr_msg_data_type = "bytes"
        self._begin(event)

    def handle_cont(self, event: Any) -> None:
        self._fragments += 1
        self._message += _take(event)
        if event.fin:
            self._complete(bytes(self._message))

    def handle_ping(self) -> None:
        self._control_frames += 1  # the pong is sent when all that was received is parsed

    def handle_pong(self, event: Any) -> None:
        self._control_frames += 1
        super().handle_pong(event)

    def _send_pong(self) -> None:
        pongs = self.conn.data_to_send()
        if pongs and self.writable.is_set():  # else the client does not read, and pongs would only wait here
            self.transport.write(pongs[-1])

    def _unfinished(self) -> int:
        """Returns how many bytes there are of a message that is not complete."""
        return len(self._message) + len(self.conn.reader.buffer)

    def _begin(self, event: Any) -> None:
        self._fragments = 1
        data = _take(event)
        if event.fin:
            self._complete(data)
        else:
            self._message = bytearray(data)

    def _complete(self, data: bytes) -> None:
        self._message, self._fragments = bytearray(), 0
        self._waiting_bytes += len(data)
        self.frames = [data]
        self.send_receive_event_to_app()

    # --- limits ---

    def _expect_reference(self, is_expected: bool) -> None:
        """Allows the next messages to be as large as a reference, or no longer."""
        self._most_bytes = self.config.ws_max_size if is_expected else self._small_bytes

    def _watch(self, unfinished: int) -> None:
        """Limits the time of an unfinished message."""
        if not unfinished:
            self._receiving.end()
        elif not self._receiving.is_on:
            self._receiving.begin(self.transport)
            self._receiving.add(unfinished)

    def _charge(self, unfinished: int) -> None:
        held = unfinished + self._waiting_bytes
        if held <= FREE_BYTES and self._account is None:
            return
        if self._account is None:
            self._account = self._uploads.open(client_of(self.scope), self._end_to_make_room)
        try:
            self._account.hold(held)
        except Busy as error:
            self._refuse(CloseCode.TRY_AGAIN_LATER, error.message)
            return
        if not unfinished and self.writable.is_set():
            self._account.finish()
        if held <= FREE_BYTES:
            self._account.close()
            self._account = None

    def _end_to_make_room(self) -> None:
        fields = {"client": client_of(self.scope)}
        log.warning("an unfinished message was ended to make room", extra={"fields": fields})
        reset(self.transport)

    def _refuse(self, code: CloseCode, reason: str) -> None:
        """Closes the connection, and drops what was received of the message."""
        self._release()
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    def _release(self) -> None:
        self._receiving.end()
        self._message = bytearray()
        self._waiting_bytes = 0
        if self._account is not None:
            self._account.close()
            self._account = None


def _take(frame: Any) -> bytes:
    """Returns what a frame holds, and leaves it empty: the parser keeps its last frame until the next one comes."""
    data: bytes = frame.data
    frame.data = b""
    return data
