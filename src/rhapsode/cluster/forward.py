"""Forwards an HTTP request to a replica, and its answer back, as it is made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rhapsode.cluster.fleet import FleetReplica, ModelFleet
from rhapsode.cluster.upstream import NotConnected, ReplicaLost, Upstream, pieces, response_headers
from rhapsode.serve.response.audio import CancellableResponse, event

log = logging.getLogger("rhapsode.cluster")

REFUSALS = (429, 503)
"""Answers of a replica that is full or shuts down: another one may have room."""
MOST_LOST = 1
"""Replicas that a request may lose before it is given up: it may be the request that ends them."""


@dataclass(frozen=True)
class Forwarding:
    """A request as it is sent to any replica of a model."""

    model: ModelFleet
    key: str | None
    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    request_id: str
    is_repeatable: bool
    """Speech that was not heard may be spoken again elsewhere. What changes something is sent once."""


class ForwardedResponse(CancellableResponse):
    """The answer of the first replica that takes the request. When the client disconnects, so does the edge."""

    def __init__(
        self, upstream: Upstream, forwarding: Forwarding, taken_by: Callable[[FleetReplica | None], None]
    ) -> None:
        super().__init__()
        self._upstream = upstream
        self._what = forwarding
        self._taken_by = taken_by

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._try_all(scope, receive, send)
        finally:
            self._taken_by(None)

    async def _try_all(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal: Response | None = None
        lost = 0
        tried: set[str] = set()
        while True:
            left = [replica for replica in await self._what.model.candidates(self._what.key) if replica.id not in tried]
            if not left and refusal is not None:
                await refusal(scope, receive, send)
                return
            if not left:  # all were lost, and none has come back yet
                raise ReplicaLost("no replica is left that could take the request.")
            replica = left[0]
            tried.add(replica.id)
            try:
                with replica.busier():
                    refused = await self._try(replica, send)
            except NotConnected:
                replica.suspect()
                continue
            except ReplicaLost:
                replica.suspect()
                lost += 1
                if lost > MOST_LOST or not self._what.is_repeatable:
                    raise
                continue
            if refused is None:
                return
            refusal = _sooner(refusal, refused)

    async def _try(self, replica: FleetReplica, send: Send) -> Response | None:
        """Hands on the answer of a replica; returns it instead if it is a refusal."""
        what = self._what
        self._taken_by(replica)
        async with self._upstream.request(
            replica, what.method, what.target, what.headers, what.body, what.request_id
        ) as answer:
            if answer.status in REFUSALS:
                return await _whole(answer)
            await send({"type": "http.response.start", "status": answer.status, "headers": response_headers(answer)})
            try:
                async for piece in pieces(answer):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except ReplicaLost as error:
                replica.suspect()
                await self._break_off(answer, error, send)
                return None
            await send({"type": "http.response.body", "body": b""})
        return None

    async def _break_off(self, answer: aiohttp.ClientResponse, error: ReplicaLost, send: Send) -> None:
        """Ends a stream visibly: with an event where there are events, and always without its last chunk."""
        log.warning("a stream broke off", extra={"fields": {"request_id": self._what.request_id, "code": error.code}})
        if answer.content_type == "text/event-stream":
            await send({"type": "http.response.body", "body": event("error", **error.body()), "more_body": True})


async def _whole(answer: aiohttp.ClientResponse) -> Response:
    body = b"".join([piece async for piece in pieces(answer)])
    response = Response(body, answer.status)
    response.raw_headers = response_headers(answer)
    return response


def _sooner(one: Response | None, other: Response) -> Response:
    """Returns the refusal after which the client may come back sooner; 429 says more than 503."""
    if one is None:
        return other
    return min(one, other, key=lambda refusal: (refusal.status_code, int(refusal.headers.get("retry-after", "1"))))
