"""Translates an answer while it is sent: JSON as a whole, events one by one, audio not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

from starlette.types import Message, Send

from rhapsode.serve.dialects.dialect import Call, Dialect, Reply, Row
from rhapsode.serve.dialects.wire import apart

END_OF_EVENT = b"\n\n"
SLICE_BYTES = 2**18
Finish = Callable[[bytes], Reply | None]


class TranslatedAnswer:
    """Stands between our route and the client; its `send` takes what our route sends."""

    def __init__(self, dialect: Dialect, row: Row, call: Call, send: Send) -> None:
        self._dialect = dialect
        self._row = row
        self._call = call
        self._send = send
        self._start: Message | None = None  # held back until the body is translated
        self._finish: Finish | None = None
        self._has_events = False
        self._held = BytesIO()
        self._rest = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] != "http.response.body":
            await self._send(message)
        elif self._finish is not None:
            self._held.write(message.get("body", b""))
            if not message.get("more_body", False):
                await self._end(self._finish)
        elif self._has_events:
            more = message.get("more_body", False)
            await self._send({**message, "body": self._events(message.get("body", b""), more)})
        else:
            await self._send(message)

    async def _begin(self, message: Message) -> None:
        headers = {str(name, "latin-1").lower(): str(value, "latin-1") for name, value in message["headers"]}
        self._call.headers = headers
        kind, is_error = headers.get("content-type", "").partition(";")[0], message["status"] >= 400
        if kind == "application/json" and (is_error or self._row.answer):
            self._start, self._finish = message, self._error if is_error else self._whole
            return
        if kind == "text/event-stream" and self._row.event:
            self._has_events = True
            message = {**message, "headers": _with(message, {"content-type": self._row.stream_type})}
        await self._send(message if is_error else {**message, "headers": _with(message, self._told())})

    def _told(self) -> dict[str, str]:
        """Returns the headers of the row; one that ours has, too, names both."""
        ours, row = self._call.headers, self._row
        told = {**self._call.told, **(row.headers(self._call) if row.headers else {})}
        return {
            name: f"{ours[name.lower()]}, {value}" if name.lower() in ours else value for name, value in told.items()
        }

    # --- whole bodies ---

    async def _end(self, finish: Finish) -> None:
        assert self._start is not None
        data, start = self._held.getvalue(), self._start
        reply = await apart(len(data), lambda: finish(data))
        if reply is not None:
            data = reply.body
            changed = {"content-length": str(len(data)), **reply.headers}
            start = {**start, "status": reply.status, "headers": _with(start, changed)}
        if start["status"] < 400:
            start = {**start, "headers": _with(start, self._told())}
        await self._send(start)
        for at in range(0, len(data), SLICE_BYTES):
            piece = data[at : at + SLICE_BYTES]
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    def _whole(self, data: bytes) -> Reply | None:
        assert self._row.answer is not None
        reply = self._row.answer(json.loads(data), self._call)
        return Reply(_as_bytes(reply.body), reply.status, reply.headers)

    def _error(self, data: bytes) -> Reply | None:
        assert self._start is not None
        body = json.loads(data)
        if not isinstance(body, dict) or not isinstance(body.get("error"), dict):
            return None  # an error in the shape of another protocol
        status = self._start["status"]
        return Reply(_as_bytes((self._row.error or self._dialect.error)(status, body["error"])), status)

    # --- events ---

    def _events(self, data: bytes, more: bool) -> bytes:
        """Returns the translation of all complete events; the rest waits for what comes next."""
        assert self._row.event is not None
        *events, self._rest = (self._rest + data).split(END_OF_EVENT)
        out = b"".join(self._translated(event) for event in events)
        if more or not self._rest:
            return out
        rest, self._rest = self._rest, b""
        return out + rest

    def _translated(self, event: bytes) -> bytes:
        assert self._row.event is not None
        name, _, line = event.partition(b"\n")
        data = line.removeprefix(b"data: ")
        translated = self._row.event(str(name.removeprefix(b"event: "), "latin-1"), data, self._call)
        return event + END_OF_EVENT if translated is None else translated


def _as_bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def _with(message: Message, changed: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Returns the headers of an answer, some of them replaced or added."""
    lower = {name.lower().encode(): value.encode("latin-1") for name, value in changed.items()}
    return [pair for pair in message["headers"] if pair[0].lower() not in lower] + list(lower.items())
