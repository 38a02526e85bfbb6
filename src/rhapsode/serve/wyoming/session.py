"""One Wyoming connection: receives events and sends audio at the same time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from rhapsode.errors import Aborted, Busy, EmptyAudio, InvalidRequest, RhapsodeError, TimedOut, Unavailable
from rhapsode.serve.client import client_at
from rhapsode.serve.listener import Listener, listener, unread_bytes, wrote
from rhapsode.serve.response.delivery import Playback
from rhapsode.serve.response.errors import InternalError
from rhapsode.serve.response.sending import Stalled
from rhapsode.serve.service import Service
from rhapsode.serve.socket.narration import Narration
from rhapsode.serve.socket.utterance import Piece
from rhapsode.serve.stall import reset
from rhapsode.serve.wyoming.event import WyomingEvent, read_event
from rhapsode.serve.wyoming.info import describe
from rhapsode.serve.wyoming.requests import chunk_text, open_order, whole_order

log = logging.getLogger("rhapsode.serve")

TICK_S = 0.25
MOST_WAITING = 16


@dataclass(frozen=True)
class _Synthesis:
    """One request for speech. If it is streamed, its text arrives in chunks."""

    narration: Narration
    is_streamed: bool


class WyomingSession:
    """Answers the events of one client. Its requests are spoken one after the other.

    Any error is sent as an `error` event, and then the connection is closed: clients that wait for audio only, as Home
    Assistant does, would otherwise wait for ever.
    """

    def __init__(
        self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session_id: str
    ) -> None:
        self._service = service
        self._reader, self._writer = reader, writer
        self._id = session_id
        self._waiting: deque[_Synthesis] = deque()
        self._open: Narration | None = None
        """The streamed request whose text is not complete."""
        self._news = asyncio.Event()
        self._count = 0
        self._active_s = 0.0

    async def run(self) -> None:
        """Runs until the client disconnects, is idle for too long, does not read, or an error ends it."""
        transport = self._writer.transport
        client = client_at(transport.get_extra_info("peername"))
        listener.set(Listener(client, partial(unread_bytes, transport), partial(reset, transport)))
        speaking = asyncio.create_task(self._speak_all(), name="wyoming-speaker")
        try:
            await self._receive_all(speaking)
        except Stalled:
            reset(self._writer.transport)
        except (ConnectionError, Aborted):
            pass
        except RhapsodeError as error:
            await self._send_error(error)
        except Exception:
            log.exception("a Wyoming connection failed", extra={"fields": {"request_id": self._id}})
            await self._send_error(InternalError("something went wrong inside the server."))
        finally:
            speaking.cancel()
            with suppress(asyncio.CancelledError, Exception):  # it was reported already
                await speaking

    # --- receiving ---

    async def _receive_all(self, speaking: asyncio.Task[None]) -> None:
        while (event := await self._next(speaking)) is not None:
            await self._handle(event)

    async def _next(self, speaking: asyncio.Task[None]) -> WyomingEvent | None:
        """Returns the next event; the idle time-out applies only while the server waits for the client."""
        limit_s = self._service.config.wyoming.idle_s
        self._touch()
        receiving = asyncio.ensure_future(read_event(self._reader, most_bytes(self._service)))
        try:
            while True:
                await asyncio.wait((receiving, speaking), timeout=min(TICK_S, limit_s), return_when="FIRST_COMPLETED")
                if receiving.done():
                    return receiving.result()
                if speaking.done():
                    speaking.result()
                if not self._waiting and self._service.host.draining:
                    raise Unavailable("the server is shutting down.")
                waits = not self._waiting or self._waiting[0].narration.waits_for_text
                if waits and asyncio.get_running_loop().time() - self._active_s > limit_s:
                    raise TimedOut(f"nothing was received for {limit_s:g} s.")
        finally:
            if not receiving.done():
                receiving.cancel()
                with suppress(asyncio.CancelledError, ConnectionError, RhapsodeError):
                    await receiving

    async def _handle(self, event: WyomingEvent) -> None:
        """Handles one event. Those of other services, such as speech recognition, are ignored."""
        match event.type:
            case "describe":
                await self._send("info", await describe(self._service))
            case "ping":
                text = event.data.get("text")
                await self._send("pong", {"text": text} if isinstance(text, str) else {})
            case "synthesize" if self._open is None:  # within a stream this event repeats the text, for older servers
                self._begin(Narration(self._service, await whole_order(self._service, event.data), self._new_id()))
            case "synthesize-start":
                if self._open is not None:
                    raise InvalidRequest("the last 'synthesize-start' was not followed by 'synthesize-stop'.")
                self._open = Narration(self._service, await open_order(self._service, event.data), self._new_id())
                self._begin(self._open)
            case "synthesize-chunk":
                await self._opened(event.type).append(chunk_text(event.data))
            case "synthesize-stop":
                self._opened(event.type).finish()
                self._open = None

    def _opened(self, kind: str) -> Narration:
        if self._open is None:
            raise InvalidRequest(f"'{kind}' must come after 'synthesize-start'.")
        return self._open

    def _begin(self, narration: Narration) -> None:
        if len(self._waiting) >= MOST_WAITING:
            raise Busy(f"{MOST_WAITING} requests are waiting to be spoken here already.")
        self._waiting.append(_Synthesis(narration, narration is self._open))
        self._news.set()

    def _new_id(self) -> str:
        self._count += 1
        return f"{self._id}-{self._count - 1}"

    # --- sending ---

    async def _speak_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._speak(self._waiting[0])
                self._waiting.popleft()

    async def _speak(self, synthesis: _Synthesis) -> None:
        has_begun = False

        async def deliver(playback: Playback, piece: Piece) -> None:
            nonlocal has_begun
            sound = {"rate": playback.sample_rate, "width": 2, "channels": playback.channels}
            while (messages := await playback.messages()) is not None:
                for left, samples in zip(range(len(messages), 0, -1), messages, strict=True):
                    if not has_begun:
                        await self._send("audio-start", sound)
                    has_begun = True
                    async with playback.sending():
                        await self._send("audio-chunk", sound, samples)
                    playback.sent(left)

        await synthesis.narration.speak(deliver)
        if has_begun:
            await self._send("audio-stop")
        elif not synthesis.is_streamed:
            raise EmptyAudio("the model ended without saying anything.")
        if synthesis.is_streamed:
            await self._send("synthesize-stopped")

    async def _send(self, kind: str, data: dict[str, Any] | None = None, payload: bytes = b"") -> None:
        """Sends an event; raises `Stalled` if the client reads nothing for too long."""
        try:
            async with asyncio.timeout(self._service.config.max_request_s):
                await self._writer.drain()
                encoded = WyomingEvent(kind, data or {}, payload).encode()
                self._writer.write(encoded)
                wrote(len(encoded))
        except TimeoutError:
            raise Stalled("the client does not read.") from None
        self._touch()

    async def _send_error(self, error: RhapsodeError) -> None:
        with suppress(ConnectionError, Stalled):
            await self._send("error", {"text": error.message, "code": error.code})

    def _touch(self) -> None:
        self._active_s = asyncio.get_running_loop().time()


def most_bytes(service: Service) -> int:
    """Returns the size limit of an event's line, data and payload: the longest text, with every character escaped."""
    return 12 * service.deployment.limits.max_text_chars + 4096
