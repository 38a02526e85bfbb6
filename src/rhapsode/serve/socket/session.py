"""One WebSocket session: text arrives while it is being written, audio is sent while it is spoken."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from rhapsode.checking.request import check_length
from rhapsode.errors import Busy, InvalidRequest, RhapsodeError, TimedOut, Unavailable
from rhapsode.serve.client import client_of
from rhapsode.serve.request.intake import Order
from rhapsode.serve.request.schemas import SessionBody, read
from rhapsode.serve.response.delivery import Playback
from rhapsode.serve.response.errors import InternalError
from rhapsode.serve.response.sending import Stalled
from rhapsode.serve.service import Service
from rhapsode.serve.socket.messages import ClientMessage, read_message
from rhapsode.serve.socket.narration import speaking_piece
from rhapsode.serve.socket.sender import SocketSender, in_messages, messages_of
from rhapsode.serve.socket.utterance import Piece, Utterance
from rhapsode.text.front_end import QUICK_CHARS

log = logging.getLogger("rhapsode.serve")

NORMAL, GOING_AWAY, POLICY = 1000, 1001, 1008
TICK_S = 0.25
MOST_WAITING = 64
KEPT_FIELDS = ("split_granularity", "input_type", "language", "audio_transport")
"""Of a session's configuration; everything else is in its order."""


class Session:
    """Receives messages and sends audio at the same time; the client may add text or cancel at any moment."""

    def __init__(self, service: Service, socket: WebSocket, session_id: str) -> None:
        self._service = service
        self._socket = socket
        self._id = session_id
        self._config: SessionBody = service.schemas.session.model_validate({})
        self._order: Order | None = None
        self._utterances: deque[Utterance] = deque()
        self._texts = service.texts.open(client_of(socket.scope))
        self._count = self._requests = 0
        self._news = asyncio.Event()
        self._speaking: asyncio.Task[None] | None = None
        self._sender = SocketSender(socket, service.config.max_request_s)
        self._expect_reference = socket.scope["state"].get("expect_reference", lambda is_expected: None)

    async def run(self) -> None:
        """Runs until the client closes, is idle for too long, does not read, or the server stops."""
        speaker_task = asyncio.create_task(self._speak_all(), name="socket-speaker")
        try:
            await self._receive_all(speaker_task)
        except WebSocketDisconnect:
            pass
        except Stalled:
            self._sender.reset()
        finally:
            speaker_task.cancel()
            self._texts.close()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, Stalled):
                await speaker_task

    # --- receiving ---

    async def _receive_all(self, speaker_task: asyncio.Task[None]) -> None:
        while True:
            try:
                if not await self._receive(speaker_task):
                    await self._sender.close(NORMAL, "")
                    return
            except Stalled:
                raise
            except (TimedOut, Unavailable) as error:
                await self._sender.send_error(error)
                await self._sender.close(GOING_AWAY if isinstance(error, Unavailable) else POLICY, error.message)
                return
            except RhapsodeError as error:
                await self._sender.send_error(error)

    async def _receive(self, speaker_task: asyncio.Task[None]) -> bool:
        """Handles the next message; returns false if it ends the session. Nothing keeps the message afterwards: it may
        hold a reference of many megabytes."""
        message = await self._next(speaker_task)
        if message.kind != "close":
            await self._handle(message)
        return message.kind != "close"

    async def _next(self, speaker_task: asyncio.Task[None]) -> ClientMessage:
        """Returns the next message; the idle time-out applies only while the server waits for the client."""
        limits = self._service.config.socket
        limit_s = limits.idle_s if self._order else limits.config_s
        loop = asyncio.get_running_loop()
        self._sender.touch()
        self._expect_reference(self._open is None and self._service.info.takes_references)
        receiving = asyncio.ensure_future(self._socket.receive())
        try:
            while True:
                await asyncio.wait(
                    (receiving, speaker_task), timeout=min(TICK_S, limit_s), return_when="FIRST_COMPLETED"
                )
                if receiving.done():
                    return await self._read(receiving.result())
                if speaker_task.done():
                    speaker_task.result()
                if self._speaking is None and self._service.host.draining:
                    raise Unavailable("the server is shutting down.")
                waiting = self._speaking is None or self._open is not None
                if waiting and loop.time() - self._sender.active_s > limit_s:
                    raise TimedOut(f"nothing was received for {limit_s:g} s.")
        finally:
            if not receiving.done():
                receiving.cancel()
                with suppress(asyncio.CancelledError):
                    await receiving

    @staticmethod
    async def _read(message: Any) -> ClientMessage:
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", NORMAL))
        if message.get("text") is None:
            raise InvalidRequest("messages are JSON text; audio only goes the other way.")
        return await read_message(message["text"])

    async def _handle(self, message: ClientMessage) -> None:
        match message.kind:
            case "config":
                await self._configure(message)
            case "text":
                await self._append(message.fields["text"])
            case "flush" if self._open is not None:
                self._open.flush()
            case "done":
                (self._open or self._begin()).flush()
                self._utterances[-1].done = True
            case "cancel":
                await self._cancel()
        self._news.set()

    @property
    def _open(self) -> Utterance | None:
        """The last utterance, if it still accepts text; otherwise None."""
        return self._utterances[-1] if self._utterances and not self._utterances[-1].done else None

    def _begin(self) -> Utterance:
        if len(self._utterances) >= MOST_WAITING:
            raise Busy(f"{MOST_WAITING} utterances are waiting to be spoken here already.")
        split, can_append = self._config.split_granularity, self._service.info.can.text_stream
        input_type = self._config.input_type or "text"
        in_one = input_type == "ssml" or split == "utterance"
        utterance = Utterance(
            self._count,
            by_sentence=not in_one and (split == "sentence" or not can_append),
            language=self._config.language or "en",
            input_type=input_type,
            whole=in_one and not can_append,
            transport=self._config.audio_transport,
            order=self._order,
        )
        self._count += 1
        self._utterances.append(utterance)
        return utterance

    async def _configure(self, message: ClientMessage) -> None:
        if self._open is not None:
            raise InvalidRequest("the session is configured between utterances: send input.done first.")
        schema = self._service.schemas.session
        data, ignored = await self._service.tolerate(schema, await asyncio.to_thread(_as_json, message.fields))
        body = await read(schema, data)
        order = await self._read_voice(body)
        ignored = (*ignored, *order.ignored)
        self._order = replace(order, ignored=ignored)
        self._config = type(body).model_construct(**{name: vars(body)[name] for name in KEPT_FIELDS})
        if message.name == "session.update":
            await self._sender.send("session.updated", **({"ignored_fields": list(ignored)} if ignored else {}))

    async def _read_voice(self, body: SessionBody) -> Order:
        mode: Any = "audio" if body.stream_audio else "whole"
        return await self._service.intake.read_voice(body, "wav", mode)

    async def _append(self, text: str) -> None:
        if self._order is None:
            self._order = await self._read_voice(self._config)
        utterance = self._open or self._begin()
        try:
            utterance.chars += len(text)
            check_length(utterance.chars, self._service.deployment.limits)
            self._count_texts()
            for start in range(0, len(text), QUICK_CHARS):  # in short steps, so that the event loop is not blocked
                utterance.append(text[start : start + QUICK_CHARS])
                await asyncio.sleep(0)
        except RhapsodeError:  # too long, too many, or already ended: the rest of the utterance is dropped
            await self._cancel()
            raise

    def _count_texts(self) -> None:
        """Counts the characters that wait. Raises `Busy` if this client has too many."""
        self._texts.hold(sum(utterance.chars for utterance in self._utterances))

    # --- sending ---

    async def _speak_all(self) -> None:
        """Speaks all utterances, piece by piece, in the order they arrived."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._utterances and (self._utterances[0].pieces or self._utterances[0].done):
                utterance = self._utterances[0]
                if utterance.pieces:
                    await self._speak_next(utterance)
                elif utterance.done:
                    self._utterances.popleft()
                    self._count_texts()
                    fields = {"utterance_index": utterance.index, "total_sentences": utterance.spoken}
                    await self._sender.send("session.done", **fields)

    async def _speak_next(self, utterance: Utterance) -> None:
        """Speaks one piece in a task of its own, so that a cancel ends only this piece."""
        piece = utterance.pieces[0]
        self._speaking = asyncio.create_task(self._speak(utterance, piece), name="socket-piece")
        try:
            await asyncio.wait((self._speaking,))
            if not self._speaking.cancelled():
                self._speaking.result()
        except (WebSocketDisconnect, Stalled):
            raise
        except RhapsodeError as error:
            await self._sender.send_error(error, utterance_index=utterance.index)
        except Exception:
            log.exception("a socket's utterance failed", extra={"fields": {"request_id": self._id}})
            bug = InternalError("something went wrong inside the server.")
            await self._sender.send_error(bug, utterance_index=utterance.index)
        finally:
            self._speaking.cancel()
            await asyncio.wait((self._speaking,))
            self._speaking = None
            if utterance.pieces and utterance.pieces[0] is piece:
                utterance.pieces.popleft()

    async def _speak(self, utterance: Utterance, piece: Piece) -> None:
        order = utterance.order
        assert order is not None
        request_id = f"{self._id}-{self._requests}"
        self._requests += 1
        where = {"utterance_index": utterance.index, "sentence_index": utterance.spoken}
        utterance.spoken += 1
        async with speaking_piece(self._service, order, piece, request_id) as playback:
            await self._send_audio(playback, utterance, piece, where, request_id)
        outcome = playback.outcome
        fields = {"finish_reason": str(outcome.finish_reason), "audio_s": round(outcome.audio_s, 3)}
        await self._sender.send("audio.done", **where, **fields, request_id=request_id)

    async def _send_audio(
        self, playback: Playback, utterance: Utterance, piece: Piece, where: dict[str, int], request_id: str
    ) -> None:
        chunk_id = 0
        while (messages := await playback.messages()) is not None:
            if not chunk_id and messages:
                fields = {"format": playback.delivery.format.name, "sample_rate": playback.sample_rate}
                fields |= {"channels": playback.channels, "sentence_text": piece.text, "request_id": request_id}
                if utterance.order and utterance.order.ignored:
                    fields["ignored_fields"] = list(utterance.order.ignored)
                await self._sender.send("audio.start", **where, **fields)
            left = sum(map(messages_of, messages))
            for message in chain.from_iterable(map(in_messages, messages)):
                async with playback.sending(len(message)):
                    await self._sender.send_audio(message, utterance.transport, chunk_id, where)
                playback.sent(left)
                left, chunk_id = left - 1, chunk_id + 1
            if news := playback.times.news():
                await self._sender.send("audio.words", **where, **news)

    async def _cancel(self) -> None:
        """Aborts the running utterance and drops all pending ones."""
        self._utterances.clear()
        self._count_texts()
        if self._speaking is not None:
            self._speaking.cancel()
            await asyncio.wait((self._speaking,))
        await self._sender.send("session.cancelled", utterance_index=self._count - 1)


def _as_json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()
