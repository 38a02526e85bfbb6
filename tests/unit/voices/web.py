"""A web server that answers exactly what a test scripts, and a network that leads every address to it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import httpcore

from rhapsode.voices.fetch import FetchLimits, ReferenceFetcher

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]

PUBLIC = "93.184.215.14"


def ok(body: bytes, *headers: str) -> bytes:
    lines = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers])
    return f"{lines}\r\n\r\n".encode() + body


def redirect(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@dataclass
class Web(httpcore.AsyncNetworkBackend):
    """Every address leads to one loopback server; what was resolved, dialled and asked is remembered."""

    answers: Mapping[str, Answer]
    names: Mapping[str, list[list[str]]] = field(default_factory=dict)
    """For each host what its look-ups say, one after another; other hosts have one public address."""
    server_tls: ssl.SSLContext | None = None
    dead: frozenset[str] = frozenset()
    looked_up: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    server_names: list[str | None] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> list[str]:
        answers = self.names.get(host, [[PUBLIC]])
        answer = answers[min(self.looked_up.count(host), len(answers) - 1)]
        self.looked_up.append(host)
        return answer

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        self.dialled.append((host, port))
        if host in self.dead:
            raise httpcore.ConnectError("nobody there")
        return await httpcore.AnyIOBackend().connect_tcp("127.0.0.1", self._port, timeout)

    def fetch(self, url: str, limits: FetchLimits | None = None, trust: ssl.SSLContext | None = None) -> bytes:
        async def run() -> bytes:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.server_tls)
            self._port = server.sockets[0].getsockname()[1]
            async with server:
                fetcher = ReferenceFetcher(
                    limits or FetchLimits(), resolve=self.resolve, network=self, ssl_context=trust
                )
                return await fetcher.fetch(url)

        return asyncio.run(run())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                request = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(request)
                answer = self.answers[request.split()[1].decode()]
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(writer)
            finally:
                writer.close()
