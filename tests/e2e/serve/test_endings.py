"""However a request ends, it ends cleanly and somebody can see that it did."""

import asyncio
import json
import logging
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import connect

from e2e.serve import broken
from e2e.serve.running import LETTER_BYTES, Running, in_thread, running

LISTENERS = 64
DISCONNECTS = 1000
ROOM = {"max_concurrency": 16, "max_queue": 400, "max_positions": 1024}


def test_sixty_four_listeners_all_hear_everything(dummy: Running) -> None:
    text = "x" * 120

    async def listen(client: httpx2.AsyncClient) -> int:
        wish = {"input": text, "response_format": "pcm", "sample_rate": 16_000}
        async with client.stream("POST", "/v1/audio/speech", json=wish) as answer:
            assert answer.status_code == 200
            return sum([len(part) async for part in answer.aiter_bytes()])

    async def listen_all() -> list[int]:
        limits = httpx2.Limits(max_connections=LISTENERS)
        async with httpx2.AsyncClient(base_url=dummy.url, limits=limits, timeout=60, trust_env=False) as client:
            return await asyncio.gather(*(listen(client) for _ in range(LISTENERS)))

    finished = dummy.metric("rhapsode_requests_total", outcome="stop")
    assert asyncio.run(listen_all()) == [len(text) * LETTER_BYTES] * LISTENERS
    assert dummy.metric("rhapsode_requests_total", outcome="stop") == finished + LISTENERS
    dummy.settle()


@pytest.fixture(scope="module")
def stormy(tmp_path_factory) -> Iterator[Running]:
    with running("dummy", tmp_path_factory.mktemp("stormy"), limits=ROOM) as server:
        yield server


@pytest.mark.slow
def test_clients_that_leave_at_any_moment_leave_nothing_behind(stormy: Running, tmp_path: Path) -> None:
    chance = random.Random(7)
    stormy.speak()
    stormy.settle()
    tasks, files = stormy.metric("rhapsode_tasks"), stormy.metric("process_open_fds")

    async def leave_early(room: asyncio.Semaphore) -> None:
        wish = {
            "input": "x" * chance.randint(1, 200),
            "response_format": chance.choice(["mp3", "opus", "aac", "flac", "wav", "pcm"]),
            "speed": chance.choice([1.0, 1.3]),
            **chance.choice([{}, {"stream": False}, {"stream_format": "sse"}]),
        }
        body = json.dumps(wish).encode()
        async with room:
            reader, writer = await asyncio.open_connection("127.0.0.1", stormy.port)
            head = "POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            cut = chance.choice([len(body)] * 9 + [len(body) // 2])
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:cut])
            try:
                await writer.drain()
                await asyncio.wait_for(reader.read(chance.choice([1, 100, 5000, 50_000])), chance.uniform(0, 0.4))
            except (TimeoutError, OSError):
                pass
            if chance.random() < 0.5:
                writer.transport.abort()  # a reset instead of a goodbye
            writer.close()
            with_errors = await asyncio.gather(writer.wait_closed(), return_exceptions=True)
            assert len(with_errors) == 1

    async def storm() -> None:
        room = asyncio.Semaphore(24)
        await asyncio.gather(*(leave_early(room) for _ in range(DISCONNECTS)))

    asyncio.run(storm())
    stormy.settle(tasks=tasks, timeout_s=30)
    assert stormy.metric("process_open_fds") <= files + 1
    assert stormy.metric("rhapsode_requests_total", outcome="aborted") > DISCONNECTS / 10
    assert stormy.metric("rhapsode_requests_total", outcome="failed") == 0
    assert stormy.metric("rhapsode_http_responses_total", status="500") == 0
    assert stormy.speak("Still here.").status_code == 200


def test_sockets_that_leave_at_any_moment_leave_nothing_behind(stormy: Running) -> None:
    chance = random.Random(11)
    stormy.settle()
    tasks = stormy.metric("rhapsode_tasks")
    for _ in range(20):
        with connect(stormy.socket_url, proxy=None) as conversation:
            conversation.send(json.dumps({"type": "session.config", "response_format": "pcm"}))
            for _ in range(chance.randint(0, 3)):
                conversation.send(json.dumps({"type": "input.text", "text": "x" * 50}))
            if chance.random() < 0.5:
                conversation.send(json.dumps({"type": "input.done"}))
            if chance.random() < 0.5:
                conversation.socket.shutdown(socket.SHUT_RDWR)
    stormy.settle(tasks=tasks)


def test_a_killed_client_frees_its_slot_within_a_frame_or_so(stormy: Running) -> None:
    code = (
        "import sys, httpx2\n"
        f"with httpx2.stream('POST', '{stormy.url}/v1/audio/speech', headers={{'X-Request-Id': 'killed'}},\n"
        "                   json={'input': 'x' * 450, 'response_format': 'pcm'}, trust_env=False) as answer:\n"
        "    for part in answer.iter_bytes():\n"
        "        print('heard', flush=True)\n"
        "        import time; time.sleep(0.05)\n"
    )
    aborted = stormy.metric("rhapsode_requests_total", outcome="aborted")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as client:
        assert client.stdout
        assert client.stdout.readline() == b"heard\n"
        client.kill()
        killed_s = time.monotonic()
    stormy.settle(timeout_s=5)
    assert time.monotonic() - killed_s < 5
    assert stormy.http.get("/v1/audio/speech/killed").json()["status"] == "aborted"
    assert stormy.metric("rhapsode_requests_total", outcome="aborted") == aborted + 1


# --- the server is told to stop ---


def test_a_server_that_is_told_to_stop_finishes_what_it_says(tmp_path: Path) -> None:
    with running("dummy", tmp_path, limits={**ROOM, "max_concurrency": 2}) as server:
        with server.http.stream(
            "POST", "/v1/audio/speech", json={"input": "x" * 400, "response_format": "pcm", "sample_rate": 16_000}
        ) as answer:
            assert server.process
            server.process.send_signal(signal.SIGTERM)
            deadline_s = time.monotonic() + 10
            with httpx2.Client(base_url=server.url, trust_env=False) as other:
                while other.get("/ready").status_code != 503:
                    assert time.monotonic() < deadline_s
                    time.sleep(0.01)
                refused = other.post("/v1/audio/speech", json={"input": "New work."})
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
                assert refused.headers["retry-after"]
                assert other.get("/health").json()["status"] == "draining"
            heard = sum(map(len, answer.iter_bytes()))
        assert heard == 400 * LETTER_BYTES
        assert server.process.wait(20) == 0
        assert "Traceback" not in "".join(server.log)


@pytest.mark.slow
def test_a_stream_that_outlasts_the_drain_is_broken_off_not_cut_short(tmp_path: Path) -> None:
    with running("dummy", tmp_path, limits=ROOM, server={"drain_timeout_s": 0.05}) as server:
        with server.http.stream(
            "POST", "/v1/audio/speech", json={"input": "x" * 450, "response_format": "pcm"}
        ) as answer:
            stream = answer.iter_bytes()
            next(stream)
            assert server.process
            server.process.send_signal(signal.SIGTERM)
            started_s = time.monotonic()
            with pytest.raises(httpx2.RemoteProtocolError):
                list(stream)
        assert server.process.wait(20) == 0
        assert time.monotonic() - started_s < 20


# --- a stage raises ---


@pytest.fixture
def breaking(tmp_path: Path, caplog) -> Iterator[Running]:
    caplog.set_level(logging.CRITICAL)
    with in_thread(broken.MODEL, tmp_path, limits=ROOM) as server:
        yield server
    broken.BreakingCodec.chunks_left = None


def test_a_stage_that_raises_before_the_first_audio_is_a_500_without_a_traceback(breaking: Running) -> None:
    answer = breaking.speak("Break in prepare.")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "generation_failed")
    assert "a bug" not in answer.text
    assert breaking.metric("rhapsode_requests_total", outcome="failed") == 1
    breaking.settle()


def test_a_stage_that_raises_midway_breaks_the_stream_and_is_remembered(breaking: Running) -> None:
    broken.BreakingCodec.chunks_left = 3
    with breaking.http.stream(
        "POST", "/v1/audio/speech", json={"input": "x" * 200, "response_format": "wav"}
    ) as answer:
        request_id = answer.headers["x-request-id"]
        with pytest.raises(httpx2.RemoteProtocolError):
            answer.read()
    broken.BreakingCodec.chunks_left = None
    ended = breaking.http.get(f"/v1/audio/speech/{request_id}").json()
    assert (ended["status"], ended["error"]["code"]) == ("failed", "generation_failed")
    assert breaking.metric("rhapsode_requests_total", outcome="failed") == 1
    breaking.settle()
    assert breaking.speak("x" * 50).status_code == 200


def test_a_family_that_takes_no_text_while_it_speaks_gets_it_by_the_sentence(tmp_path: Path) -> None:
    with (
        in_thread(broken.DEAF, tmp_path, limits=ROOM) as server,
        connect(server.socket_url, proxy=None) as conversation,
    ):
        conversation.send(json.dumps({"type": "session.config", "response_format": "pcm", "sample_rate": 16_000}))
        conversation.send(json.dumps({"type": "input.text", "text": "One is here. Two is"}))
        assert json.loads(conversation.recv())["sentence_text"] == "One is here."
        conversation.send(json.dumps({"type": "input.text", "text": " there."}))
        conversation.send(json.dumps({"type": "input.done"}))
        heard, told = 0, {}
        while told.get("type") != "session.done":
            message = conversation.recv(timeout=20)
            if isinstance(message, bytes):
                heard += len(message)
            else:
                told = json.loads(message)
        assert told["total_sentences"] == 2
        assert heard == len("One is here.Two is there.") * LETTER_BYTES
        conversation.send(json.dumps({"type": "session.config", "split_granularity": "utterance"}))
        conversation.send(json.dumps({"type": "input.text", "text": "One is here. Two is"}))
        conversation.send(json.dumps({"type": "input.text", "text": " there."}))
        conversation.send(json.dumps({"type": "input.done"}))
        assert json.loads(conversation.recv())["sentence_text"] == "One is here. Two is there."
