"""Chooses the dialect of a request, and translates it: its path before all checks, its body after them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rhapsode.config.server import DIALECTS as NAMES
from rhapsode.config.server import ServerConfig, key_id
from rhapsode.errors import RhapsodeError
from rhapsode.serve.dialects import kokoro_fastapi, sglang_omni, vllm_omni
from rhapsode.serve.dialects.answer import TranslatedAnswer
from rhapsode.serve.dialects.dialect import Call, Dialect, Fields, Row
from rhapsode.serve.dialects.wire import apart
from rhapsode.serve.middleware.auth import given_key
from rhapsode.serve.middleware.leniency import HEADER as LENIENCY
from rhapsode.serve.observe.logs import new_id
from rhapsode.serve.request.body import is_json, json_body, media_type
from rhapsode.serve.request.large import LONG_BODY_BYTES, LargeObject, load_object
from rhapsode.serve.request.shape import BodyTooComplex
from rhapsode.serve.response.errors import error_response

DIALECTS: dict[str, Dialect] = {
    "vllm-omni": vllm_omni.DIALECT,
    "sglang-omni": sglang_omni.DIALECT,
    "kokoro-fastapi": kokoro_fastapi.DIALECT,
}
SOCKET = "/v1/audio/speech/stream"
NORMAL = 1000


class Dialects:
    """Leads a request to our own route: its dialect is that of its path's prefix, of its key, or of the deployment.

    It runs before every check, so that checks see our own paths, and clients see errors in the shape they expect.
    """

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self._app = app
        self._default = config.dialect
        self._by_key = config.key_dialects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        dialect = DIALECTS.get(_take_prefix(scope) or self._of_key(scope) or self._default)
        method = "WS" if scope["type"] == "websocket" else scope["method"]
        found = dialect.find(method, scope["path"]) if dialect is not None else None
        if dialect is not None and found is not None:
            row, params = found
            query = str(scope["query_string"], "latin-1")
            call = Call(params, request_id=scope.get("state", {}).get("request_id", ""), query=query)
            _lead(scope, row)
            scope.setdefault("state", {})["dialect"] = (dialect, row, call)
            if method != "WS":
                send = TranslatedAnswer(dialect, row, call, send).send
        await self._app(scope, receive, send)

    def _of_key(self, scope: Scope) -> str | None:
        key = given_key(scope) if self._by_key else None
        return None if key is None else self._by_key.get(key_id(key))


class Translation:
    """Translates the bodies and messages of a request that `Dialects` has led here, as they are read."""

    def __init__(self, app: ASGIApp, voices: Callable[[Sequence[str]], Collection[str]]) -> None:
        """`voices` returns the names of voices, but for uploaded ones, of the first model there is among some names."""
        self._app = app
        self._voices = voices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chosen = scope["state"].get("dialect") if scope["type"] != "lifespan" else None
        if chosen is None:
            await self._app(scope, receive, send)
            return
        dialect, row, call = chosen
        if scope["type"] == "websocket":
            socket = TranslatedSocket(dialect, new_id().replace("req", "ws"), receive, send)
            await self._app(scope, socket.receive, socket.send)
        elif row.reply is not None:
            await _reply(row, call, scope, receive, send)
        elif row.ask is not None and is_json(media_type(scope)):
            body = TranslatedBody(row, call, self._voices, partial(_read, self._app, scope), receive)
            await self._app(scope, body.receive, send)
        else:
            await self._app(scope, receive, send)


async def _reply(row: Row, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers by the row alone."""
    answer = row.reply
    assert answer is not None
    try:
        data = await json_body(scope, receive) if media_type(scope) else b"{}"
        read = None if len(data) > LONG_BODY_BYTES else partial(load_object, data)  # no row wants a longer one
        reply = await asyncio.to_thread(lambda: answer((read and read()) or {}, call))
        await JSONResponse(reply.body, reply.status)(scope, receive, send)
    except RhapsodeError as error:
        await error_response(error)(scope, receive, send)


async def _read(app: ASGIApp, scope: Scope, path: str) -> Any:
    """Returns the JSON that our own route answers to the client of a request; None for an error."""
    state = {name: value for name, value in scope["state"].items() if name not in ("dialect", "release_body")}
    asked = {**scope, "method": "GET", "path": path, "raw_path": quote(path).encode(), "state": state}
    status, body = 0, b""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    await app(asked, receive, send)
    return load_object(body) if status == 200 else None


class TranslatedBody:
    """Translates the JSON body of a request when our route asks for it, within the limits of what it may send."""

    def __init__(
        self,
        row: Row,
        call: Call,
        voices: Callable[[Sequence[str]], Collection[str]],
        read: Callable[[str], Awaitable[Any]],
        receive: Receive,
    ) -> None:
        self._row = row
        self._call = call
        self._voices = voices
        self._read = read
        self._receive = receive
        self._is_read = False

    async def receive(self) -> Message:
        if self._is_read:
            return await self._receive()
        body = BytesIO()
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            body.write(message.get("body", b""))
            if not message.get("more_body", False):
                break
        self._is_read = True
        data = body.getvalue()
        asked = await apart(len(data), partial(LargeObject, data))
        if (fields := asked.fields) is not None:
            for path in self._row.needs(fields) if self._row.needs else ():
                self._call.read[path] = await self._read(path)
            size = max(len(data), LONG_BODY_BYTES if self._call.read else 0)  # voices that are mixed are large
            data = await apart(size, lambda: asked.write(self._ask(fields)))
        elif len(data) > LONG_BODY_BYTES:  # our own route might accept it, and its answer would have to be translated
            raise BodyTooComplex("the body is no JSON object, or too complex to be read.")
        return {"type": "http.request", "body": data, "more_body": False}

    def _ask(self, fields: Fields) -> Fields:
        assert self._row.ask is not None
        named = (fields.get("model"), dict(parse_qsl(self._call.query)).get("model"))
        self._call.voices = self._voices([name for name in named if isinstance(name, str)])
        return self._row.ask(fields, self._call)


class TranslatedSocket:
    """Translates the messages of a WebSocket in both directions."""

    def __init__(self, dialect: Dialect, session_id: str, receive: Receive, send: Send) -> None:
        assert dialect.session is not None
        self._session = dialect.session(session_id)
        self._receive = receive
        self._send = send
        self._inward: Iterator[Fields] = iter(())
        """What is left of the client's last message."""
        self._last: LargeObject | None = None
        self._is_closed = False

    async def receive(self) -> Message:
        while (fields := next(self._inward, None)) is None or self._last is None:
            self._last = None
            if self._is_closed:
                return {"type": "websocket.disconnect", "code": NORMAL}
            message = await self._receive()
            text = message.get("text")
            if message["type"] != "websocket.receive" or text is None:
                return message
            given = await apart(len(text), partial(_read_text, text))
            if given.fields is None:
                return message
            del message, text  # it may hold a recording of many megabytes
            self._last, self._inward = given, iter(self._session.inward(given.fields))
        sizes = (len(value) for value in fields.values() if isinstance(value, str | list))
        size = max((self._last.long_bytes, *sizes))
        return {"type": "websocket.receive", "text": await apart(size, partial(_write_text, self._last, fields))}

    async def send(self, message: Message) -> None:
        if self._is_closed:
            return
        if message["type"] != "websocket.send":
            await self._send(message)
            return
        if message.get("text") is None:
            self._session.heard(len(message["bytes"]))
            await self._send(message)
            return
        told = json.loads(message["text"])
        if told["type"] == "session.cancelled" or (told["type"] == "error" and "utterance_index" not in told):
            self._inward = iter(())  # the rest of a message that was refused
        for fields in self._session.outward(told):
            await self._send({"type": "websocket.send", "text": json.dumps(fields)})
        if self._session.closes:
            self._is_closed = True
            await self._send({"type": "websocket.close", "code": NORMAL, "reason": ""})


def _read_text(text: str) -> LargeObject:
    return LargeObject(text.encode("utf-8", "surrogatepass"))


def _write_text(read: LargeObject, fields: Fields) -> str:
    return read.write(fields).decode("utf-8", "surrogatepass")


def _take_prefix(scope: Scope) -> str | None:
    """Removes the name of a dialect from the start of a request's path, and returns it."""
    name, slash, rest = scope["path"][1:].partition("/")
    if name not in NAMES or not slash:
        return None
    path, raw = f"/{rest}", scope.get("raw_path") or b""
    scope["path"], scope["raw_path"] = path, raw[at:] if (at := raw.find(b"/", 1)) > 0 else quote(path).encode()
    return str(name)


def _lead(scope: Scope, row: Row) -> None:
    """Changes a request's path to ours, and asks that fields are ignored that mean nothing here."""
    path, _, query = row.to.partition("?")
    if path:
        scope["path"], scope["raw_path"] = path, quote(path).encode()
    if query:
        scope["query_string"] = b"&".join(part for part in (scope["query_string"], query.encode()) if part)
    others = [pair for pair in scope["headers"] if pair[0] != LENIENCY]
    scope["headers"] = [*others, (LENIENCY, b"ignore")]
