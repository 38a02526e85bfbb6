"""Responses that carry audio. Headers are sent with the first audio, so that an early failure has its own status."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from functools import lru_cache
from typing import Any

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from rhapsode.errors import EmptyAudio, InvalidRequest, RhapsodeError
from rhapsode.serve.listener import wrote
from rhapsode.serve.request.intake import Order
from rhapsode.serve.request.lenient import as_header
from rhapsode.serve.response.delivery import Playback
from rhapsode.serve.response.errors import InternalError
from rhapsode.serve.response.sending import Stalled
from rhapsode.serve.response.whole_file import SLICE_BYTES
from rhapsode.serve.service import Service

CHUNK_FRAMING_BYTES = 8
"""About as much surrounds each piece of a streamed body."""

log = logging.getLogger("rhapsode.serve")


class CancellableResponse(Response):
    """A response whose work is cancelled when its client disconnects."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work, when_lost = self.answer(scope, receive, send), scope["state"].get("when_lost")
        try:
            await (cancel_on_disconnect(receive, work) if when_lost is None else cancel_when_lost(when_lost, work))
        except Stalled:
            scope["state"].get("reset", lambda: None)()  # an orderly close would wait for the client

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


class SpeechResponse(CancellableResponse):
    """One utterance: as a whole file, as a stream of bytes, or as server-sent events."""

    def __init__(
        self,
        service: Service,
        data: bytes,
        request_id: str,
        read: Callable[[bytes], Awaitable[Order]] | None = None,
    ) -> None:
        """`read` reads the body; by default it is one of `POST /v1/audio/speech`."""
        super().__init__()
        self._service = service
        self._data = data
        self._read = read or service.read
        self._id = request_id
        self._ignored: tuple[str, ...] = ()
        self._is_full: Callable[[], bool] = lambda: True  # if the connection does not tell, any send may wait

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._is_full = scope["state"].get("is_full", self._is_full)
        data, self._data = self._data, b""
        order = await self._read(data)
        del data
        scope["state"].get("release_body", lambda: None)()  # the speech may take minutes
        check_carries_words(order)
        self._ignored = order.ignored
        modes = {"whole": self._whole, "audio": self._raw, "sse": self._events}
        async with self._service.speaking(order, self._id) as playback:
            await modes[order.delivery.mode](order, playback, send)

    async def _whole(self, order: Order, playback: Playback, send: Send) -> None:
        body = await playback.whole()
        usage = self._service.usage(order.request, playback.outcome)
        headers = {
            **self._described(playback),
            "X-Finish-Reason": str(playback.outcome.finish_reason),
            "X-Input-Tokens": str(usage["input_tokens"]),
            "X-Output-Tokens": str(usage["output_tokens"]),
        }
        if order.request.word_timestamps:
            body = await asyncio.to_thread(self._with_words, body, order, playback)
            headers["Content-Type"] = "application/json"
        await _start(send, {**headers, "Content-Length": str(len(body))})
        try:
            await send_whole(body, playback.sending, send)
        except Stalled as error:
            self._service.outcomes.record_error(self._id, error)
            raise
        self._service.outcomes.delivered(self._id)

    async def _raw(self, order: Order, playback: Playback, send: Send) -> None:
        async def omit_end(error: RhapsodeError) -> None:
            """Omits the last chunk of the HTTP body, so that the client notices that the audio is incomplete."""

        await self._stream(
            playback.get, lambda: playback.is_complete, playback, self._described(playback), send, omit_end
        )

    async def _events(self, order: Order, playback: Playback, send: Send) -> None:
        done = False

        async def next_event() -> bytes | None:
            nonlocal done
            messages = await playback.messages()
            if messages is not None:
                news = playback.times.news()
                told = event("speech.audio.words", **news) if news else b""
                return b"".join(event("speech.audio.delta", audio=_as_base64(message)) for message in messages) + told
            if done:
                return None
            done = True
            usage = self._service.usage(order.request, playback.outcome)
            times = playback.times.body() if order.request.word_timestamps else {}
            reason = str(playback.outcome.finish_reason)
            return event("speech.audio.done", usage=usage, finish_reason=reason, **times)

        async def send_error(error: RhapsodeError) -> None:
            await send({"type": "http.response.body", "body": event("error", **error.body())})

        headers = self._described(playback) | {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        await self._stream(next_event, lambda: done, playback, headers, send, send_error)

    async def _stream(
        self,
        get: Callable[[], Awaitable[bytes | None]],
        is_complete: Callable[[], bool],
        playback: Playback,
        headers: dict[str, str],
        send: Send,
        break_off: Callable[[RhapsodeError], Awaitable[None]],
    ) -> None:
        piece = await get()
        if piece is None:
            raise EmptyAudio("the model ended without saying anything.")
        await _start(send, headers)
        try:
            while piece is not None:
                is_last = is_complete()
                message = {"type": "http.response.body", "body": piece, "more_body": not is_last}
                if self._is_full():
                    async with playback.sending():
                        await send(message)
                else:  # this send does not wait, so it needs no time limit
                    await send(message)
                wrote(len(piece) + CHUNK_FRAMING_BYTES)
                playback.sent()
                piece = None if is_last else await get()
        except RhapsodeError as error:
            self._report(error)
            if isinstance(error, Stalled):
                raise
            await break_off(error)
            return
        except Exception as error:
            bug = InternalError("something went wrong midway.")
            self._report(bug, error)
            await break_off(bug)
            return
        if not is_last:
            await send({"type": "http.response.body", "body": b""})
        self._service.outcomes.delivered(self._id)

    def _with_words(self, data: bytes, order: Order, playback: Playback) -> bytes:
        """Returns a JSON body with the audio and its words."""
        body = {
            "audio": base64.b64encode(data).decode("ascii"),
            "format": playback.delivery.format.name,
            "sample_rate": playback.sample_rate,
            "channels": playback.channels,
            **playback.times.body(),
            "finish_reason": str(playback.outcome.finish_reason),
            "usage": self._service.usage(order.request, playback.outcome),
        }
        return json.dumps(body).encode()

    def _report(self, error: RhapsodeError, cause: Exception | None = None) -> None:
        fields = {"request_id": self._id, "code": error.code}
        log.warning("a stream broke off", extra={"fields": fields}, exc_info=cause)
        self._service.outcomes.record_error(self._id, error)

    def _described(self, playback: Playback) -> dict[str, str]:
        return {
            "Content-Type": playback.content_type,
            "X-Sample-Rate": str(playback.sample_rate),
            "X-Channels": str(playback.channels),
            **({"X-Cache": playback.entry.status} if playback.entry else {}),
            **as_header(self._ignored),
        }


def _as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def check_carries_words(order: Order) -> None:
    """Raises if words are asked for, and the body is a plain stream of audio."""
    if order.request.word_timestamps and order.delivery.mode == "audio":
        raise InvalidRequest(
            "a plain stream of audio cannot carry words: ask for 'stream_format': 'sse', for 'stream': false "
            "(a JSON body), or use the WebSocket.",
            param="word_timestamps",
        )


def event(kind: str, **fields: Any) -> bytes:
    """Returns one server-sent event. Its data contains its type, as in OpenAI's events."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


async def send_whole(body: bytes, sending: Callable[[int], AbstractAsyncContextManager[None]], send: Send) -> None:
    """Sends a body in slices, so that only one of them is copied into the connection at a time. `sending` is entered
    for each, with its size."""
    for start in range(0, len(body), SLICE_BYTES):
        piece = body[start : start + SLICE_BYTES]
        async with sending(len(piece)):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _start(send: Send, headers: dict[str, str]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _raw_headers(tuple(headers.items()))})


@lru_cache(maxsize=64)  # nearly all responses have the same headers
def _raw_headers(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers)


async def cancel_when_lost(
    when_lost: Callable[[Callable[[], None] | None], None], work: Coroutine[Any, Any, None]
) -> None:
    """Runs the work in this task, and cancels it when the connection is lost. A second task that watches the connection
    would cost more."""
    task, is_lost = asyncio.current_task(), False
    assert task is not None

    def cancel() -> None:
        nonlocal is_lost
        is_lost = True
        task.cancel()

    when_lost(cancel)
    try:
        await work
    except asyncio.CancelledError:
        if not is_lost:
            raise
        task.uncancel()
    finally:
        when_lost(None)


async def cancel_on_disconnect(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Runs the work, and cancels it when the client disconnects."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
        with suppress(asyncio.CancelledError):
            await watching
    if not working.cancelled():
        working.result()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
