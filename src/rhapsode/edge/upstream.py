"""Sends requests from the edge to replicas, and hands their answers on piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from starlette.types import Scope
from yarl import URL

from rhapsode.config.server import ServerConfig
from rhapsode.edge import buffers
from rhapsode.edge.body import HeldBody, OutgoingBody
from rhapsode.edge.fleet import FleetReplica
from rhapsode.errors import RhapsodeError
from rhapsode.serve.client import EDGE_HEADER, vouched

CONNECT_S = 5.0
REUSE = 0.8
"""The part of the replicas' `keep_alive_s` in which an idle connection is used again: no request is sent on one that is
being closed."""
SLACK_S = 60.0

_HOP_BY_HOP = (b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"proxy-connection")
_REQUEST_OWN = frozenset((*_HOP_BY_HOP, b"content-length", b"x-request-id", b"expect", EDGE_HEADER))
_RESPONSE_OWN = frozenset((*_HOP_BY_HOP, b"date", b"server", b"x-request-id"))

Headers = Iterable[tuple[bytes, bytes]]


class ReplicaLost(RhapsodeError):
    """The replica that worked on a request is gone."""

    status, code = 502, "replica_lost"


class NotConnected(ReplicaLost):
    """The replica was gone before the request was sent."""


class Upstream:
    """The connections of an edge to its replicas."""

    def __init__(self, server: ServerConfig) -> None:
        """`server` is the section that the edge and its replicas share."""
        # A request may wait in a replica's queue, so no shorter limit applies to the time between two reads.
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=server.max_request_s + SLACK_S)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=REUSE * server.keep_alive_s, socket_factory=buffers.from_replica
            ),
            read_bufsize=buffers.BYTES,
            timeout=limits,
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def request(
        self,
        replica: FleetReplica,
        method: str,
        target: str,
        headers: Headers,
        body: HeldBody | None,
        request_id: str,
        client: str,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yields the answer, once its headers are there. Leaving the block early closes the connection at once."""
        url = URL(replica.report.url + target, encoded=True)
        forwarded = [(_text(name), _text(value)) for name, value in headers if name not in _REQUEST_OWN]
        forwarded += (("x-request-id", request_id), (_text(EDGE_HEADER), vouched(replica.report.secret, client)))
        answer = await self._send(method, url, forwarded, body)
        try:
            yield answer
        finally:
            answer.close()  # does not close a connection whose answer was read to its end

    async def _send(
        self, method: str, url: URL, headers: list[tuple[str, str]], body: HeldBody | None
    ) -> aiohttp.ClientResponse:
        data: Any = OutgoingBody(body) if body is not None and body.size else None
        try:
            return await self._session.request(method, url, headers=headers, data=data, allow_redirects=False)
        except aiohttp.ClientConnectorError as error:
            raise NotConnected("the replica cannot be reached.") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ReplicaLost("the replica ended before it answered.") from error


def target_of(scope: Scope) -> str:
    """Returns the path and query of a request as its client wrote them, to be sent on."""
    query = scope["query_string"].decode("latin-1")
    target = str(scope["raw_path"].decode("latin-1")) + (f"?{query}" if query else "")
    return target.replace("#", "%23")  # what follows would not be sent


async def pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yields a body as it arrives; raises `ReplicaLost` if it breaks off."""
    try:
        while piece := await answer.content.readany():
            yield piece
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ReplicaLost("the replica ended while it was speaking.") from error


def response_headers(answer: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    """Returns the headers of an answer that belong to the client, not to this connection.

    Origins are judged at the edge, which adds its own headers about them.
    """
    lower = ((name.lower(), value) for name, value in answer.raw_headers)
    return [pair for pair in lower if pair[0] not in _RESPONSE_OWN and not pair[0].startswith(b"access-control-")]


def _text(raw: bytes) -> str:
    return raw.decode("latin-1")
