"""A request over a plain connection, for clients that do not read, read slowly, or leave."""

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tools.soak.cases import SPEECH
from tools.soak.ledger import Violation

RECEIVE_BYTES = 8192  # a small window, so that the server feels at once that nobody reads


class RawRequest:
    """One HTTP request whose answer is read by hand."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.data = b""
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> "RawRequest":
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self._port))
        self.reader, self.writer = await asyncio.open_connection(sock=plain, limit=RECEIVE_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Resets the connection: what was not read is dropped at once."""
        with suppress(OSError):  # the server may have ended it already
            plain = self.writer.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def ask(self, body: Mapping[str, Any]) -> None:
        self.writer.write(request_bytes(self._port, json.dumps(dict(body)).encode()))
        await self.writer.drain()

    async def read(self, size: int) -> bool:
        """Reads some bytes; tells whether there may be more."""
        try:
            part = await self.reader.read(size)
        except ConnectionError:
            return False
        self.data += part
        return bool(part)


def request_bytes(port: int, body: bytes) -> bytes:
    head = f"POST {SPEECH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def status_of(data: bytes) -> int | None:
    """Returns the status of an answer of which at least the first line has arrived."""
    line = data.partition(b"\r\n")[0].split()
    return int(line[1]) if len(line) > 1 and data.count(b"\r\n") else None


def body_of(data: bytes) -> bytes:
    """Returns the body, as far as it has arrived, of an answer in chunks."""
    _, _, rest = data.partition(b"\r\n\r\n")
    body = b""
    while b"\r\n" in rest:
        size, _, rest = rest.partition(b"\r\n")
        try:
            length = int(size, 16)
        except ValueError:
            raise Violation(f"an answer that is not HTTP: {size[:100]!r}") from None
        body += rest[:length]
        rest = rest[length + 2 :]
    return body
