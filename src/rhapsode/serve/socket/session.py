"""One WebSocket: text in as it is written, audio out as it is spoken."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from rhapsode.engine.validate import check_length
from rhapsode.errors import Busy, InvalidRequest, RhapsodeError, TimedOut, Unavailable
from rhapsode.serve.request.intake import Order
from rhapsode.serve.request.schemas import SessionBody, read
from rhapsode.serve.response.delivery import Playback, Stalled
from rhapsode.serve.response.errors import InternalError
from rhapsode.serve.service import Service
from rhapsode.serve.socket.messages import Said, read_message
from rhapsode.serve.socket.utterance import Piece, Utterance
from rhapsode.serve.socket.wire import Wire

log = logging.getLogger("rhapsode.serve")

NORMAL, GOING_AWAY, POLICY = 1000, 1001, 1008
TICK_S = 0.25
MOST_WAITING = 64


class Session:
    """Listens and speaks at once: the client may say more, or stop us, at any moment."""

    def __init__(self, service: Service, socket: WebSocket, session_id: str) -> None:
        self._service = service
        self._socket = socket
        self._id = session_id
        self._config: SessionBody = service.schemas.session.model_validate({})
        self._order: Order | None = None
        self._utterances: deque[Utterance] = deque()
        self._count = self._requests = 0
        self._news = asyncio.Event()
        self._speaking: asyncio.Task[None] | None = None
        self._wire = Wire(socket, service.config.max_request_s)

    async def run(self) -> None:
        """Until the client closes, is silent for too long, or the server stops."""
        mouth = asyncio.create_task(self._speak_all(), name="socket-mouth")
        try:
            await self._listen(mouth)
        except WebSocketDisconnect:
            pass
        except Stalled:
            self._wire.reset()
        finally:
            mouth.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, Stalled):
                await mouth

    # --- listening ---

    async def _listen(self, mouth: asyncio.Task[None]) -> None:
        while True:
            try:
                said = await self._next(mouth)
                if said.kind == "close":
                    await self._wire.close(NORMAL, "")
                    return
                await self._take(said)
            except Stalled:
                raise
            except (TimedOut, Unavailable) as error:
                await self._wire.tell_error(error)
                await self._wire.close(GOING_AWAY if isinstance(error, Unavailable) else POLICY, error.message)
                return
            except RhapsodeError as error:
                await self._wire.tell_error(error)

    async def _next(self, mouth: asyncio.Task[None]) -> Said:
        """The next message; time only counts against a client that we wait for."""
        limits = self._service.config.socket
        limit_s = limits.idle_s if self._order else limits.config_s
        loop = asyncio.get_running_loop()
        self._wire.touch()
        receiving = asyncio.ensure_future(self._socket.receive())
        try:
            while True:
                await asyncio.wait((receiving, mouth), timeout=min(TICK_S, limit_s), return_when="FIRST_COMPLETED")
                if receiving.done():
                    return await self._read(receiving.result())
                if mouth.done():
                    mouth.result()
                if self._speaking is None and self._service.host.draining:
                    raise Unavailable("the server is shutting down.")
                waiting = self._speaking is None or self._open is not None
                if waiting and loop.time() - self._wire.active_s > limit_s:
                    raise TimedOut(f"nothing was said for {limit_s:g} s.")
        finally:
            if not receiving.done():
                receiving.cancel()
                with suppress(asyncio.CancelledError):
                    await receiving

    @staticmethod
    async def _read(message: Any) -> Said:
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", NORMAL))
        if message.get("text") is None:
            raise InvalidRequest("messages are JSON text; audio only goes the other way.")
        return await read_message(message["text"])

    async def _take(self, said: Said) -> None:
        match said.kind:
            case "config":
                await self._configure(said)
            case "text":
                await self._append(said.fields["text"])
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
        """The utterance that takes text."""
        return self._utterances[-1] if self._utterances and not self._utterances[-1].done else None

    def _begin(self) -> Utterance:
        if len(self._utterances) >= MOST_WAITING:
            raise Busy(f"{MOST_WAITING} utterances are waiting to be spoken here already.")
        by_sentence = self._config.split_granularity == "sentence" or not self._service.spec.can.text_stream
        utterance = Utterance(self._count, by_sentence, self._config.language or "en")
        self._count += 1
        self._utterances.append(utterance)
        return utterance

    async def _configure(self, said: Said) -> None:
        if self._open is not None:
            raise InvalidRequest("the session is configured between utterances: send input.done first.")
        body = await read(self._service.schemas.session, await asyncio.to_thread(_as_json, said.fields))
        self._order = await self._understand(body)
        self._config = body
        if said.name == "session.update":
            await self._wire.tell("session.updated")

    async def _understand(self, body: SessionBody) -> Order:
        mode: Any = "audio" if body.stream_audio else "whole"
        return await self._service.intake.read_voice(body, await self._service.host.voices(), "wav", mode)

    async def _append(self, text: str) -> None:
        if self._order is None:
            self._order = await self._understand(self._config)
        utterance = self._open or self._begin()
        try:
            utterance.chars += len(text)
            check_length(utterance.chars, self._service.deployment.limits)
            utterance.append(text)
        except RhapsodeError:  # too long, or already over: what is left of it is not worth hearing
            await self._cancel()
            raise

    # --- speaking ---

    async def _speak_all(self) -> None:
        """Utterance after utterance, piece after piece, in the order they were said."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._utterances and (self._utterances[0].pieces or self._utterances[0].done):
                utterance = self._utterances[0]
                if utterance.pieces:
                    await self._speak_next(utterance)
                elif utterance.done:
                    self._utterances.popleft()
                    told = {"utterance_index": utterance.index, "total_sentences": utterance.spoken}
                    await self._wire.tell("session.done", **told)

    async def _speak_next(self, utterance: Utterance) -> None:
        """In a task of its own, so that a cancel ends this piece and nothing else."""
        piece = utterance.pieces[0]
        self._speaking = asyncio.create_task(self._speak(utterance, piece), name="socket-piece")
        try:
            await asyncio.wait((self._speaking,))
            if not self._speaking.cancelled():
                self._speaking.result()
        except (WebSocketDisconnect, Stalled):
            raise
        except RhapsodeError as error:
            await self._wire.tell_error(error, utterance_index=utterance.index)
        except Exception:
            log.exception("a socket's utterance failed", extra={"fields": {"request_id": self._id}})
            bug = InternalError("something went wrong inside the server.")
            await self._wire.tell_error(bug, utterance_index=utterance.index)
        finally:
            self._speaking.cancel()
            await asyncio.wait((self._speaking,))
            self._speaking = None
            if utterance.pieces and utterance.pieces[0] is piece:
                utterance.pieces.popleft()

    async def _speak(self, utterance: Utterance, piece: Piece) -> None:
        assert self._order is not None
        order = self._order
        request = replace(order.request, text=piece.text, text_open=not piece.closed)
        request_id = f"{self._id}-{self._requests}"
        self._requests += 1
        where = {"utterance_index": utterance.index, "sentence_index": utterance.spoken}
        utterance.spoken += 1
        async with self._service.speaking(Order(request, order.delivery), request_id) as playback:
            piece.speech = playback.speech
            self._catch_up(piece, request.text, request.text_open)
            await self._send_audio(playback, piece, where, request_id)
        self._service.outcomes.delivered(request_id)
        outcome = playback.outcome
        told = {"finish_reason": str(outcome.finish_reason), "audio_s": round(outcome.audio_s, 3)}
        await self._wire.tell("audio.done", **where, **told, request_id=request_id)

    @staticmethod
    def _catch_up(piece: Piece, submitted: str, was_open: bool) -> None:
        """What was said while the engine was being fetched."""
        assert piece.speech is not None
        if was_open and len(piece.text) > len(submitted):
            piece.speech.append(piece.text[len(submitted) :])
        if was_open and piece.closed:
            piece.speech.finish_text()

    async def _send_audio(self, playback: Playback, piece: Piece, where: dict[str, int], request_id: str) -> None:
        chunk_id = 0
        while (data := await playback.get()) is not None:
            if not chunk_id:
                told = {"format": playback.delivery.format.name, "sample_rate": playback.sample_rate}
                told |= {"channels": playback.channels, "sentence_text": piece.text, "request_id": request_id}
                await self._wire.tell("audio.start", **where, **told)
            async with playback.sending():
                await self._wire.send_audio(data, self._config.audio_transport, chunk_id, where)
            chunk_id += 1

    async def _cancel(self) -> None:
        """Silence, now: what is spoken and what was to be spoken is dropped."""
        self._utterances.clear()
        if self._speaking is not None:
            self._speaking.cancel()
            await asyncio.wait((self._speaking,))
        await self._wire.tell("session.cancelled", utterance_index=self._count - 1)


def _as_json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()
