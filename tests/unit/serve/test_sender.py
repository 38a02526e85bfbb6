"""Whoever sends to a client that has left learns just that, however many try."""

import asyncio
import base64
import json
import threading

import pytest
from fastapi import WebSocket, WebSocketDisconnect

from rhapsode.serve.socket.sender import MOST_MESSAGE_BYTES, QUICK_BYTES, SocketSender, in_messages, messages_of


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


def test_large_audio_comes_in_messages_of_bounded_size_that_the_event_loop_does_not_encode(monkeypatch) -> None:
    sent: list[dict] = []
    threads: list[int] = []
    encode = base64.b64encode
    monkeypatch.setattr(base64, "b64encode", lambda data: threads.append(threading.get_ident()) or encode(data))

    async def receive() -> dict:
        return {"type": "websocket.connect"}

    async def send(message: dict) -> None:
        if message["type"] == "websocket.send":
            sent.append(json.loads(message["text"]))

    async def run() -> None:
        socket = WebSocket({"type": "websocket", "path": "/", "headers": [], "state": {}}, receive, send)
        await socket.accept()
        sender = SocketSender(socket, patience_s=10)
        for number, piece in enumerate(in_messages(audio)):
            await sender.send_audio(piece, "base64", number, {"utterance_index": 0})
        await sender.send_audio(bytes(QUICK_BYTES), "base64", 9, {})

    audio = bytes(range(256)) * (5 * MOST_MESSAGE_BYTES // 512)
    asyncio.run(run())
    *parts, quick = sent
    assert len(parts) == messages_of(audio) == 3
    assert b"".join(base64.b64decode(part["audio_b64"]) for part in parts) == audio
    assert max(len(part["audio_b64"]) for part in parts) <= MOST_MESSAGE_BYTES * 4 / 3 + 4
    assert {**quick, "audio_b64": ""} == {"type": "audio.chunk", "chunk_id": 9, "audio_b64": ""}
    assert [thread == threading.get_ident() for thread in threads] == [False, False, False, True]
