"""Whoever sends to a client that has left learns just that, however many try."""

import asyncio

import pytest
from fastapi import WebSocket, WebSocketDisconnect

from rhapsode.serve.socket.sender import SocketSender


def test_a_second_sender_learns_that_the_client_has_left_as_the_first_one_did() -> None:
    async def receive() -> dict:
        return {"type": "websocket.connect"}

    async def send(message: dict) -> None:
        if message["type"] != "websocket.accept":
            raise OSError("the client is gone")

    async def run() -> None:
        socket = WebSocket({"type": "websocket", "path": "/", "headers": [], "state": {}}, receive, send)
        await socket.accept()
        sender = SocketSender(socket, patience_s=1)
        with pytest.raises(WebSocketDisconnect):
            await sender.send_audio(b"audio", "binary", 0, {})
        with pytest.raises(WebSocketDisconnect):
            await sender.send("session.cancelled")
        with pytest.raises(WebSocketDisconnect):
            await sender.send_audio(b"audio", "binary", 1, {})
        await sender.close(1000, "")

    asyncio.run(run())
