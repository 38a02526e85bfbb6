"""The sending side of a WebSocket: one message at a time, from several tasks."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from fastapi import WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState

from rhapsode.errors import Aborted, RhapsodeError
from rhapsode.serve.listener import wrote
from rhapsode.serve.response.sending import Stalled

GONE = 1006
MOST_REASON_BYTES = 120
MOST_MESSAGE_BYTES = 2**21
"""Of audio in one message: a larger file comes in several."""
QUICK_BYTES = 2**16
"""Up to this size the event loop encodes audio itself."""
FRAME_BYTES = 4  # around a message of more than 125 bytes


class SocketSender:
    """Sends JSON and audio to one client, and keeps the time when the connection was last active."""

    def __init__(self, socket: WebSocket, patience_s: float) -> None:
        self._socket = socket
        self._patience_s = patience_s
        self._sending = asyncio.Lock()
        self.active_s = 0.0
        """When a message was last sent, or the session began to wait for one, by the event loop's clock."""

    def touch(self) -> None:
        self.active_s = asyncio.get_running_loop().time()

    async def send(self, kind: str, **fields: Any) -> None:
        """Sends a message of this type."""
        await self.send_message({"type": kind, **fields})

    async def send_message(self, message: dict[str, Any]) -> None:
        """Sends a message; raises `Stalled` if the client reads nothing for too long."""
        await self._send_text(json.dumps(message))

    async def _send_text(self, text: str) -> None:
        try:
            async with asyncio.timeout(self._patience_s), self._sending:
                self._check_open()
                await self._socket.send_text(text)
                wrote(len(text) + FRAME_BYTES)  # it is ASCII
        except TimeoutError:
            raise Stalled("the client does not read.") from None
        self.touch()

    async def send_error(self, error: RhapsodeError, **where: int) -> None:
        if not isinstance(error, Aborted):  # a client that cancelled needs no error
            await self.send("error", **where, message=error.message, **error.body())

    async def send_audio(
        self, data: bytes, transport: Literal["binary", "base64"], chunk_id: int, where: dict[str, int]
    ) -> None:
        """Sends audio. The playback limits how long sending may take."""
        if transport == "base64":
            encode = partial(_as_chunk, data, where, chunk_id)
            await self._send_text(encode() if len(data) <= QUICK_BYTES else await asyncio.to_thread(encode))
            return
        async with self._sending:
            self._check_open()
            await self._socket.send_bytes(data)
            wrote(len(data) + FRAME_BYTES)
            self.touch()

    def _check_open(self) -> None:
        """Raises `WebSocketDisconnect` if another sender has already found that the client is gone."""
        if self._socket.application_state is WebSocketState.DISCONNECTED:
            raise WebSocketDisconnect(GONE)

    def reset(self) -> None:
        """Ends the connection without a closing handshake, for a client that does not read."""
        self._socket.scope["state"].get("reset", lambda: None)()

    async def close(self, code: int, reason: str) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):  # the client may have closed first
            await self._socket.close(code, reason.encode()[:MOST_REASON_BYTES].decode(errors="ignore"))


def messages_of(data: bytes) -> int:
    """Returns how many messages carry this audio."""
    return -(-len(data) // MOST_MESSAGE_BYTES)


def in_messages(data: bytes) -> Iterator[bytes]:
    """Yields audio in the pieces that messages carry."""
    for start in range(0, len(data), MOST_MESSAGE_BYTES):
        yield data[start : start + MOST_MESSAGE_BYTES]


def _as_chunk(data: bytes, where: dict[str, int], chunk_id: int) -> str:
    audio = base64.b64encode(data).decode("ascii")
    return json.dumps({"type": "audio.chunk", **where, "chunk_id": chunk_id, "audio_b64": audio})
