"""A session on one of ElevenLabs' WebSockets: text arrives while it is being written, audio is sent while it is spoken.

A session has one context or several. Each context is a text of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from rhapsode.errors import Aborted, Busy, InvalidRequest, RhapsodeError, TimedOut, Unavailable
from rhapsode.serve.elevenlabs.alignment import ContextAlignment, has_aligner
from rhapsode.serve.elevenlabs.body import ElevenLabsVoice, read_voice
from rhapsode.serve.elevenlabs.context import SpeechContext
from rhapsode.serve.elevenlabs.errors import detail_of
from rhapsode.serve.elevenlabs.formats import parse_format
from rhapsode.serve.elevenlabs.messages import (
    DEFAULT_CONTEXT,
    InputMessage,
    alignment_wish,
    idle_limit,
    read_input,
    voice_of,
)
from rhapsode.serve.response.sending import Stalled
from rhapsode.serve.service import Service
from rhapsode.serve.socket.narration import Narration
from rhapsode.serve.socket.sender import SocketSender

NORMAL, POLICY = 1000, 1008
TICK_S = 0.25
MOST_CONTEXTS = 5


class ElevenLabsSession:
    """Receives messages, and speaks all contexts concurrently.

    With one context, its end or its failure closes the connection. With several, a failure ends its context alone.
    """

    def __init__(self, service: Service, socket: WebSocket, session_id: str, voice_id: str, *, several: bool) -> None:
        self._service = service
        self._socket = socket
        self._id = session_id
        self._voice_id = voice_id
        self._several = several
        self._parameters = dict(socket.query_params)
        self._sender = SocketSender(socket, service.config.max_request_s)
        self._open: dict[str, SpeechContext] = {}
        self._ending: set[SpeechContext] = set()
        """Contexts whose text is complete, but which are still being spoken."""
        self._is_closing = False
        self._count = 0

    async def run(self) -> None:
        """Runs until the client closes, all text is spoken, the client is idle for too long, or the server stops."""
        try:
            self._voice = voice_of(self._parameters)
            self._audio = parse_format(self._parameters.get("output_format"))
            self._wish = alignment_wish(self._parameters)
            self._idle_s = idle_limit(self._parameters, self._service.config.socket.idle_s)
            while (message := await self._next()) is not None:
                await self._handle(message)
            await self._sender.close(NORMAL, "")
        except (WebSocketDisconnect, Aborted):
            pass
        except Stalled:
            self._sender.reset()
        except RhapsodeError as error:
            with suppress(WebSocketDisconnect, Stalled):
                await self._send_error(error)
                await self._sender.close(POLICY, error.message)
        finally:
            for context in self._contexts:
                await context.cancel()

    @property
    def _contexts(self) -> list[SpeechContext]:
        return [*self._open.values(), *self._ending]

    # --- receiving ---

    async def _next(self) -> InputMessage | None:
        """Returns the next message, or None once the client has ended its text and all of it is spoken."""
        self._sender.touch()
        receiving = asyncio.ensure_future(self._socket.receive())
        try:
            while not (self._is_closing and not self._contexts):
                tasks = [context.task for context in self._contexts]
                tick_s = min(TICK_S, self._idle_s)
                await asyncio.wait((receiving, *tasks), timeout=tick_s, return_when="FIRST_COMPLETED")
                self._drop_ended()
                if receiving.done():
                    return await self._read(receiving.result())
                self._check_idle()
            return None
        finally:
            if not receiving.done():
                receiving.cancel()
                with suppress(asyncio.CancelledError):
                    await receiving

    def _drop_ended(self) -> None:
        """Drops contexts that have ended; raises the error of one that failed."""
        for context in self._contexts:
            if context.task.done():
                self._open = {name: other for name, other in self._open.items() if other is not context}
                self._ending.discard(context)
                if not context.task.cancelled():
                    context.task.result()

    def _check_idle(self) -> None:
        if not self._contexts and self._service.host.draining:
            raise Unavailable("the server is shutting down.")
        waits = all(context.narration.waits_for_text for context in self._contexts)
        if waits and asyncio.get_running_loop().time() - self._sender.active_s > self._idle_s:
            raise TimedOut(f"no text was received for {self._idle_s:g} s.")

    @staticmethod
    async def _read(message: Any) -> InputMessage:
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", NORMAL))
        if message.get("text") is None:
            raise InvalidRequest("messages are JSON text.")
        return await read_input(message["text"])

    async def _handle(self, message: InputMessage) -> None:
        if self._is_closing:
            return
        name = (message.context_id or DEFAULT_CONTEXT) if self._several else DEFAULT_CONTEXT
        if message.close_socket and self._several:
            self._is_closing = True
            for other in list(self._open):
                self._finish(other)
        elif message.close_context and self._several:
            await self._close(name)
        else:
            await self._add(name, message)

    async def _add(self, name: str, message: InputMessage) -> None:
        """Adds the text of a message to its context. The first message of a context creates the context."""
        context = self._open.get(name)
        if context is None and self._several and not message.text:  # such a message only keeps the connection open
            return
        try:
            context = context or await self._begin(name, message)
            await context.narration.append(message.text or "")
        except RhapsodeError as error:
            if not self._several:
                raise
            await self._drop(name)
            await self._send_error(error, name)
            return
        if message.flush:
            context.narration.flush()
        if message.text == "" and not self._several:
            self._is_closing = True
            self._finish(name)

    async def _begin(self, name: str, message: InputMessage) -> SpeechContext:
        if len(self._contexts) >= MOST_CONTEXTS:
            raise Busy(f"{MOST_CONTEXTS} contexts are open on this connection already.")
        fields = {"voice_settings", "pronunciation_dictionary_locators"} & message.model_fields_set
        voice: ElevenLabsVoice = self._voice.model_copy(update={field: vars(message)[field] for field in fields})
        order = await read_voice(self._service, voice, self._voice_id, self._audio)

        def has_times(text: str) -> bool:
            return self._wish is not False and has_aligner(self._service, order.request.language, text)

        narration = Narration(self._service, order, f"{self._id}-{self._count}", has_times)
        self._count += 1
        on_error = partial(self._send_error, name=name) if self._several else None
        alignment = ContextAlignment(from_start=bool(self._wish))
        context = SpeechContext(narration, partial(self._send, name=name), on_error, alignment)
        self._open[name] = context
        return context

    def _finish(self, name: str) -> None:
        """Marks the text of a context as complete. The context is spoken to its end."""
        context = self._open.pop(name)
        context.narration.finish()
        self._ending.add(context)

    async def _close(self, name: str) -> None:
        """Closes a context. If all its text is flushed, it is spoken to its end; otherwise the context is dropped."""
        context = self._open.get(name)
        if context is not None and context.narration.is_flushed:
            self._finish(name)
        elif await self._drop(name):
            await self._send({"audio": None, "isFinal": True}, name)

    async def _drop(self, name: str) -> bool:
        """Ends a context at once; returns whether the context existed."""
        context = self._open.pop(name, None)
        if context is not None:
            await context.cancel()
        return context is not None

    # --- sending ---

    async def _send(self, message: dict[str, Any], name: str) -> None:
        await self._sender.send_message({**message, "contextId": name} if self._several else message)

    async def _send_error(self, error: RhapsodeError, name: str | None = None) -> None:
        detail = detail_of(error)["detail"]
        where = {"contextId": name} if name and self._several else {}
        await self._sender.send_message(
            {"message": detail["message"], "error": detail["status"], "code": POLICY, **where}
        )
