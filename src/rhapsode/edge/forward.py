"""Forwards an HTTP request to a replica, and its answer back, as it is made."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rhapsode.edge.body import HeldBody
from rhapsode.edge.fleet import FleetReplica, ModelFleet
from rhapsode.edge.upstream import NotConnected, ReplicaLost, Upstream, pieces, response_headers
from rhapsode.serve.response.audio import CancellableResponse, event

log = logging.getLogger("rhapsode.edge")

REFUSALS = (429, 503)
"""Status codes of a replica that is full or shuts down: another replica may have room."""
WAITED = b"x-model-wait-s"
"""The header that says how many seconds a request waited until its model was loaded."""
MOST_LOST = 1
"""How many replicas may fail under a request before the request fails, too: the request may be the cause."""


@dataclass(frozen=True)
class Forwarding:
    """A request as it is sent to any replica of a model."""

    model: ModelFleet
    key: str | None
    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: HeldBody
    request_id: str
    client: str
    is_repeatable: bool
    """Whether another replica may get the request after a failure. A request that changes state is sent only once."""


class ForwardedResponse(CancellableResponse):
    """The answer of the first replica that accepts the request. If the client disconnects, so does the edge."""

    def __init__(
        self, upstream: Upstream, forwarding: Forwarding, taken_by: Callable[[FleetReplica | None], None]
    ) -> None:
        super().__init__()
        self._upstream = upstream
        self._what = forwarding
        self._taken_by = taken_by
        self._waited_s: float | None = None
        """How long the request waited until its model was loaded; None if it did not."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._try_all(scope, receive, send)
        finally:
            self._taken_by(None)

    async def _try_all(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal: Response | None = None
        lost = 0
        began_s, has_to_wait = time.monotonic(), not self._what.model.replicas
        tried: set[str] = set()
        while True:
            self._what.body.wait()
            left = [
                replica
                for replica in await self._what.model.candidates(self._what.key, self._what.client)
                if replica.id not in tried
            ]
            if refusal is not None and (not left or self._what.body.is_lost):
                await refusal(scope, receive, send)
                return
            if not left:  # all replicas were lost, and none has come back yet
                raise ReplicaLost("no replica is left that could take the request.")
            if has_to_wait and not tried:
                self._waited_s = time.monotonic() - began_s
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
        """Sends the answer of a replica to the client, unless it is a refusal: then returns it."""
        what = self._what
        what.body.begin()
        self._taken_by(replica)
        async with self._upstream.request(
            replica, what.method, what.target, what.headers, what.body, what.request_id, what.client
        ) as answer:
            if answer.status in REFUSALS:
                return await _whole(answer)
            what.body.drop()
            headers = response_headers(answer)
            if self._waited_s is not None:
                headers.append((WAITED, f"{self._waited_s:.2f}".encode()))
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
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
        """Ends a stream so that the client sees the failure: with an error event, if the stream has events.

        Never sends the last chunk of the HTTP body, so that the body is incomplete.
        """
        log.warning("a stream broke off", extra={"fields": {"request_id": self._what.request_id, "code": error.code}})
        if answer.content_type == "text/event-stream":
            await send({"type": "http.response.body", "body": event("error", **error.body()), "more_body": True})


async def _whole(answer: aiohttp.ClientResponse) -> Response:
    body = b"".join([piece async for piece in pieces(answer)])
    response = Response(body, answer.status)
    response.raw_headers = response_headers(answer)
    return response


def _sooner(one: Response | None, other: Response) -> Response:
    """Returns the refusal to show to the client: 429 rather than 503, then the one with the shorter `retry-after`."""
    if one is None:
        return other
    return min(one, other, key=lambda refusal: (refusal.status_code, int(refusal.headers.get("retry-after", "1"))))
