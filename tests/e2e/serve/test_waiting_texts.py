"""Texts that wait on WebSockets: one client queues so many characters, whatever the number of its sockets."""

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest
from websockets.sync.client import ClientConnection, connect

from e2e.serve.running import Running, in_thread
from rhapsode.serve.service import TEXTS_EACH
from rhapsode.serve.socket.narration import Narration
from rhapsode.serve.socket.session import Session

MOST = 200
TEXT = "No. " * (MOST // 4)
OWN, ELSE = "127.0.0.2", "127.0.0.3"


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Running]:
    """A server that says nothing, so that all texts wait."""

    async def wait(*about: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(Session, "_speak_next", wait)
    monkeypatch.setattr(Narration, "_speak", wait)
    limits = {"max_concurrency": 1, "max_positions": 1024, "max_text_chars": MOST}
    with in_thread("dummy", tmp_path, limits=limits) as started:
        yield started


def opened(server: Running, address: str, path: str = "/v1/audio/speech/stream") -> ClientConnection:
    raw = socket.create_connection(("127.0.0.1", server.port), source_address=(address, 0))
    return connect(f"ws://127.0.0.1:{server.port}{path}", sock=raw, proxy=None)


def queue(talk: ClientConnection, texts: int) -> str:
    """The code of the error that the last of so many texts gets; empty if none."""
    for _ in range(texts):
        talk.send(json.dumps({"type": "input.text", "text": TEXT}))
        talk.send(json.dumps({"type": "input.done"}))
    talk.send(json.dumps({"type": "nothing"}))  # its error ends the test of what came before
    codes = []
    while "no message of this type" not in (message := str(talk.recv(timeout=20))):
        codes.append(json.loads(message).get("error", {}).get("code") or json.loads(message)["type"])
    return ",".join(codes)


def test_the_texts_of_one_client_that_wait_are_bounded_over_all_its_sockets(server: Running) -> None:
    with opened(server, OWN) as first, opened(server, OWN) as second, opened(server, ELSE) as honest:
        assert queue(first, TEXTS_EACH - 1) == ""
        assert queue(second, 1) == ""
        assert queue(second, 1) == "session.cancelled,queue_full"
        assert queue(honest, 2) == ""
        first.send(json.dumps({"type": "input.cancel"}))
        assert "session.cancelled" in first.recv(timeout=20)
        assert queue(first, 1) == ""
    with opened(server, OWN) as again:
        assert queue(again, TEXTS_EACH) == ""


def test_so_are_those_of_elevenlabs_clients(server: Running) -> None:
    path = "/v1/text-to-speech/low/multi-stream-input"
    with opened(server, OWN, path) as first, opened(server, OWN, path) as second, opened(server, ELSE, path) as honest:
        for talk, names, refused in ((first, "abcdef", "f"), (second, "ghij", "j"), (honest, "klmnop", "p")):
            for name in names:  # one connection has five contexts
                talk.send(json.dumps({"text": TEXT, "context_id": name}))
            assert json.loads(talk.recv(timeout=20))["contextId"] == refused
