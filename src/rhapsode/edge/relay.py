"""Relays a WebSocket between a client and a replica, message by message."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from rhapsode.edge import buffers
from rhapsode.edge.choice import RoutingWish, read_wish
from rhapsode.edge.fleet import FleetReplica
from rhapsode.edge.forward import REFUSALS
from rhapsode.edge.upstream import CONNECT_S, ReplicaLost
from rhapsode.errors import InvalidRequest, RhapsodeError, TimedOut, Unavailable
from rhapsode.serve.client import EDGE_HEADER, client_of, vouched
from rhapsode.serve.middleware.auth import SUBPROTOCOL
from rhapsode.serve.response.errors import error_response

log = logging.getLogger("rhapsode.edge")

ABNORMAL, RESTART, POLICY, TRY_LATER = 1006, 1012, 1008, 1013
NO_STATUS, NORMAL = 1005, 1000
FORWARDED = ("authorization", "x-api-key", "xi-api-key", "x-unknown-fields", "traceparent", "tracestate")
MOST_REASON_BYTES = 120


class SocketRelay:
    """Relays one WebSocket of a client. If its first message was read to choose a model, it is sent on first."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._offered = [str(name) for name in socket.scope.get("subprotocols", ())]
        self._first: str | bytes | None = None
        self._is_accepted = False

    async def read_wish(self, timeout_s: float) -> RoutingWish:
        """Accepts the connection and reads the client's first message, which may name a model and a voice."""
        await self._accept(next((name for name in self._offered if not name.startswith(SUBPROTOCOL)), None), [])
        try:
            async with asyncio.timeout(timeout_s):
                message = await self._socket.receive()
        except TimeoutError:
            raise TimedOut(f"nothing was received for {timeout_s:g} s.") from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", ABNORMAL))
        text = message.get("text")
        self._first = message["bytes"] if text is None else text
        return await read_wish((text or "").encode("utf-8", "surrogatepass"))

    async def run(self, candidates: Callable[[], Awaitable[Sequence[FleetReplica]]], target: str) -> None:
        """Connects to the first replica that has room, and passes messages both ways until one side closes. One that
        has taken the place of a replica that left meanwhile is tried, too."""
        refusal: Response | None = None
        tried: set[str] = set()
        while replica := next((one for one in await candidates() if one.id not in tried), None):
            tried.add(replica.id)
            try:
                upstream = await self._connect(replica, target)
            except InvalidStatus as error:
                refusal = _denial(error)
                if refusal.status_code not in REFUSALS:
                    break
                continue
            except (OSError, TimeoutError, WebSocketException):
                replica.suspect()
                continue
            async with upstream:
                await self._relay(upstream)
            return
        if refusal is None:
            raise Unavailable("no replica can be reached.")
        await self._deny(refusal)

    async def refuse(self, error: RhapsodeError) -> None:
        """Tells the client why its connection ends."""
        if not self._is_accepted:
            await self._socket.send_denial_response(error_response(error))
            return
        with suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_text(json.dumps({"type": "error", **error.body()}))
            code = POLICY if isinstance(error, TimedOut | InvalidRequest) else RESTART
            await self._socket.close(code, error.message.encode()[:MOST_REASON_BYTES].decode(errors="ignore"))

    async def _connect(self, replica: FleetReplica, target: str) -> ClientConnection:
        headers = self._socket.headers
        upstream = await connect(
            f"ws{replica.report.url.removeprefix('http')}{target}",
            subprotocols=[Subprotocol(name) for name in self._offered] or None,
            additional_headers={
                **{name: headers[name] for name in FORWARDED if name in headers},
                EDGE_HEADER.decode(): vouched(replica.report.secret, client_of(self._socket.scope)),
            },
            user_agent_header=None,
            compression=None,
            open_timeout=CONNECT_S,
            ping_interval=None,  # the replica pings the edge, and the edge pings the client
            max_size=None,
            max_queue=1,
            proxy=None,
        )
        buffers.keep_small(upstream.transport.get_extra_info("socket"))
        return upstream

    async def _accept(self, subprotocol: str | None, headers: list[tuple[bytes, bytes]]) -> None:
        await self._socket.accept(subprotocol, headers)
        self._is_accepted = True

    async def _deny(self, refusal: Response) -> None:
        if not self._is_accepted:
            await self._socket.send_denial_response(refusal)
            return
        with suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_text(json.dumps({"type": "error", **json.loads(bytes(refusal.body))}))
            await self._socket.close(TRY_LATER, "no replica has room.")

    async def _relay(self, upstream: ClientConnection) -> None:
        if not self._is_accepted:
            assert upstream.response is not None
            session = upstream.response.headers.get("x-request-id", "")
            await self._accept(upstream.subprotocol, [(b"x-request-id", session.encode())])
        up = asyncio.create_task(self._to_replica(upstream), name="relay-up")
        down = asyncio.create_task(self._to_client(upstream), name="relay-down")
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            if up.done() and isinstance(up.exception(), ConnectionClosed):
                await asyncio.wait((down,))  # it tells the client why the replica closed
        finally:
            for task in (up, down):
                task.cancel()
            results = await asyncio.gather(up, down, return_exceptions=True)
        for result in results:
            expected = (asyncio.CancelledError, WebSocketDisconnect, ConnectionClosed, RuntimeError, type(None))
            if isinstance(result, BaseException) and not isinstance(result, expected):
                raise result

    async def _to_replica(self, upstream: ClientConnection) -> None:
        if self._first is not None:
            await upstream.send(self._first)
        while True:
            message: Mapping[str, Any] = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                await upstream.close()
                return
            text = message.get("text")
            await upstream.send(message["bytes"] if text is None else text)

    async def _to_client(self, upstream: ClientConnection) -> None:
        try:
            while True:
                message = await upstream.recv()
                if isinstance(message, str):
                    await self._socket.send_text(message)
                else:
                    await self._socket.send_bytes(message)
        except ConnectionClosed:
            code = upstream.close_code or ABNORMAL
            if code == ABNORMAL:
                log.warning("a replica ended while a socket was open")
                await self.refuse(ReplicaLost("the replica of this connection is gone."))
            else:
                await self._socket.close(NORMAL if code == NO_STATUS else code, upstream.close_reason or "")


def _denial(error: InvalidStatus) -> Response:
    answer = error.response
    kept = {name: answer.headers[name] for name in ("content-type", "retry-after") if name in answer.headers}
    return Response(answer.body, answer.status_code, kept)
