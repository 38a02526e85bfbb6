"""Home Assistant's protocol, with the client of the `wyoming` package."""

import asyncio
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.serve.running import LETTER_BYTES, Running, in_thread
from tiny.dummy import write
from unit.command import environment

pytest.importorskip("wyoming", reason="the client is not installed: pip install wyoming")

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info, TtsProgram
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

TIMEOUT_S = 30


def converse(server: Running, talk: Callable[[AsyncTcpClient], Awaitable[Any]]) -> Any:
    """Runs a conversation over one connection."""

    async def run() -> Any:
        assert server.wyoming_port
        async with asyncio.timeout(TIMEOUT_S), AsyncTcpClient("127.0.0.1", server.wyoming_port) as client:
            return await talk(client)

    return asyncio.run(run())


async def until(client: AsyncTcpClient, kind: Any) -> list[Event]:
    """Everything up to an event of this kind, or up to the end of the connection."""
    events: list[Event] = []
    while (event := await client.read_event()) is not None:
        events.append(event)
        if kind is not None and kind.is_type(event.type):
            break
    return events


def audio(events: list[Event]) -> bytes:
    return b"".join(AudioChunk.from_event(event).audio for event in events if AudioChunk.is_type(event.type))


def speak(server: Running, *events: Any, last: Any = AudioStop) -> list[Event]:
    """Sends events, and returns the answer up to the last event of it."""

    async def talk(client: AsyncTcpClient) -> list[Event]:
        for event in events:
            await client.write_event(event.event() if hasattr(event, "event") else event)
        return await until(client, last)

    return converse(server, talk)


def program(server: Running) -> TtsProgram:
    return Info.from_event(speak(server, Describe(), last=Info)[0]).tts[0]


def refusal(server: Running, *events: Any) -> Error:
    """The error that ends a connection."""
    answer = speak(server, *events, last=None)
    assert [event.type for event in answer if not AudioChunk.is_type(event.type)][-1] == "error"
    return Error.from_event(answer[-1])


def test_describe_tells_the_voices_of_the_checkpoint(server: Running) -> None:
    found = program(server)
    assert (found.name, found.installed, found.supports_synthesize_streaming) == ("dummy", True, True)
    assert [voice.name for voice in found.voices] == server.http.get("/v1/models").json()["data"][0]["voices"]
    assert all(voice.languages for voice in found.voices)


def test_a_text_becomes_audio_at_the_rate_of_the_model(server: Running) -> None:
    events = speak(server, Synthesize("Hello there."))
    assert AudioStart.from_event(events[0]) == AudioStart(rate=16_000, width=2, channels=1)
    assert [event.type for event in events[1:]] == ["audio-chunk"] * (len(events) - 2) + ["audio-stop"]
    assert len(audio(events)) == 12 * LETTER_BYTES


def test_the_voice_is_the_one_that_was_chosen(server: Running, audit: Path) -> None:
    for voice in ("high", "Rachel"):
        speak(server, Synthesize("Hi.", SynthesizeVoice(name=voice)))
        server.settle()
        assert f'"voice": "{voice}"' in audit.read_text().splitlines()[-1]


def test_a_document_may_be_spoken(server: Running) -> None:
    document = "<speak>One <break time='500ms'/> two.</speak>"
    assert len(audio(speak(server, Synthesize(document, text_format="ssml")))) > 16_000


def test_text_is_spoken_while_it_arrives_in_chunks_that_cut_words(server: Running) -> None:
    async def talk(client: AsyncTcpClient) -> tuple[list[Event], list[Event]]:
        await client.write_event(SynthesizeStart(voice=SynthesizeVoice(name="high")).event())
        await client.write_event(SynthesizeChunk("Hel").event())
        await client.write_event(SynthesizeChunk("lo the").event())
        first = await until(client, AudioChunk)  # before the text is complete
        await client.write_event(SynthesizeChunk("re.").event())
        await client.write_event(Synthesize("Hello there.", SynthesizeVoice(name="high")).event())
        await client.write_event(SynthesizeStop().event())
        return first, await until(client, SynthesizeStopped)

    first, rest = converse(server, talk)
    kinds = [event.type for event in first + rest]
    assert kinds[0] == "audio-start"
    assert kinds[-2:] == ["audio-stop", "synthesize-stopped"]
    assert kinds.count("audio-start") == kinds.count("audio-stop") == 1
    whole = speak(server, Synthesize("Hello there.", SynthesizeVoice(name="high")))
    assert len(audio(first + rest)) == len(audio(whole))  # the copy for older servers is not spoken


def test_a_stream_without_text_ends_at_once(server: Running) -> None:
    events = speak(server, SynthesizeStart(), SynthesizeChunk("  "), SynthesizeStop(), last=SynthesizeStopped)
    assert [event.type for event in events] == ["synthesize-stopped"]


def test_one_connection_serves_several_requests_in_order(server: Running) -> None:
    async def talk(client: AsyncTcpClient) -> list[bytes]:
        for text in ("One.", "Three."):
            await client.write_event(Synthesize(text).event())
        await client.write_event(Ping("still there?").event())
        said = []
        for _ in range(2):
            events = await until(client, AudioStop)
            said.append(audio(events))
            pongs.extend(Pong.from_event(event).text for event in events if Pong.is_type(event.type))
        return said

    pongs: list[str | None] = []
    assert [len(part) for part in converse(server, talk)] == [4 * LETTER_BYTES, 6 * LETTER_BYTES]
    assert pongs == ["still there?"]


def test_a_model_that_takes_no_text_while_it_speaks_gets_it_by_sentence(tmp_path) -> None:
    limits = {"max_concurrency": 2, "max_positions": 512}
    checkpoint = write(tmp_path / "checkpoint", {"text_stream": False})
    with in_thread(checkpoint, tmp_path, limits=limits, server={"wyoming": 0}) as server:
        chunks = [SynthesizeChunk(part) for part in ("One is he", "re. Two is", " there.")]
        events = speak(server, SynthesizeStart(), *chunks, SynthesizeStop(), last=SynthesizeStopped)
    assert len(audio(events)) == 25 * LETTER_BYTES


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([Synthesize("Hi.", SynthesizeVoice(name="nobody"))], "unknown_voice"),
        ([Synthesize("Hi.", SynthesizeVoice(name="low", speaker="two"))], "invalid_value"),
        ([Synthesize("")], "invalid_value"),
        ([Synthesize("x" * 2001)], "text_too_long"),
        ([Synthesize("Hi.", text_format="markdown")], "invalid_value"),
        ([SynthesizeStart(), SynthesizeChunk("x" * 1500), SynthesizeChunk("x" * 501)], "text_too_long"),
        ([SynthesizeStart(SynthesizeVoice(name="nobody"))], "unknown_voice"),
        ([SynthesizeStart(), SynthesizeStart()], "invalid_value"),
        ([SynthesizeChunk("Hi.")], "invalid_value"),
        ([SynthesizeStop()], "invalid_value"),
        ([Event("synthesize", {"text": 5})], "invalid_value"),
        ([Event("synthesize", {"text": "Hi.", "voice": "low"})], "invalid_value"),
        ([Event("synthesize", {"text": "Hi.", "voice": {"name": [1]}})], "invalid_value"),
        ([Event("synthesize-chunk", {})], "invalid_value"),
        ([Event("synthesize-start", {"voice": {"language": "x" * 99}})], "invalid_value"),
    ],
)
def test_what_cannot_be_spoken_is_an_error_event_and_the_end(server: Running, events: list[Any], code: str) -> None:
    assert refusal(server, *events).code == code


def test_the_command_serves_and_ends_while_an_idle_client_is_connected(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rhapsode", "wyoming", "dummy", "--port", "0", "--http-port", "0"]
    env = environment(OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        listening = next(line for line in process.stderr if "wyoming" in line)
        reader = threading.Thread(target=process.stderr.read)  # so that it never waits for us
        started = Running(process, "http://127.0.0.1:0", [])
        started.wyoming_port = int(listening.split("tcp://127.0.0.1:")[1].split()[0])
        reader.start()
        try:
            assert len(audio(speak(started, Synthesize("Hi.")))) == 3 * LETTER_BYTES
            with socket.create_connection(("127.0.0.1", started.wyoming_port), timeout=TIMEOUT_S) as idle:
                process.send_signal(signal.SIGTERM)
                assert b"unavailable" in idle.recv(4096)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
            reader.join(TIMEOUT_S)
            started.close()


@pytest.mark.slow
def test_a_port_that_is_announced_is_found(tmp_path: Path) -> None:
    zeroconf = pytest.importorskip("zeroconf", reason="not installed: pip install zeroconf")
    found: queue.Queue[str] = queue.Queue()

    def on_change(zeroconf: Any, service_type: str, name: str, state_change: Any) -> None:
        found.put(name)

    kind = "_wyoming._tcp.local."
    limits = {"max_concurrency": 2, "max_positions": 512}
    with in_thread("dummy", tmp_path, limits=limits, server={"wyoming": {"port": 0, "announce": True}}) as server:
        network = zeroconf.Zeroconf(interfaces=["127.0.0.1"])
        try:
            browser = zeroconf.ServiceBrowser(network, kind, handlers=[on_change])
            while not (name := found.get(timeout=TIMEOUT_S)).startswith("dummy on "):
                pass
            info = network.get_service_info(kind, name, timeout=1000 * TIMEOUT_S)
            browser.cancel()
        finally:
            network.close()
        assert (info.port, info.parsed_addresses()) == (server.wyoming_port, ["127.0.0.1"])


def test_an_event_of_another_service_is_ignored(server: Running) -> None:
    other = Event("transcribe", {"language": "en"})
    noise = Event("audio-chunk", {"rate": 16_000, "width": 2, "channels": 1}, b"\0" * 2048)
    assert speak(server, other, noise, Describe(), last=Info)[0].type == "info"


def test_a_client_that_leaves_midway_frees_its_slot(server: Running) -> None:
    speak(server, Synthesize("x" * 900), last=AudioChunk)
    speak(server, SynthesizeStart(), SynthesizeChunk("x" * 300), last=AudioChunk)
    server.settle()


def is_closed_at_once(server: Running) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", server.wyoming_port), timeout=TIMEOUT_S) as connection:
            return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_silence_and_too_many_connections_have_limits(tmp_path) -> None:
    limits = {"max_concurrency": 2, "max_positions": 512}
    wyoming = {"port": 0, "most": 1, "idle_s": 0.5}
    with in_thread("dummy", tmp_path, limits=limits, server={"wyoming": wyoming}) as server:

        async def talk(client: AsyncTcpClient) -> list[Event]:
            await client.write_event(SynthesizeStart().event())
            await client.write_event(SynthesizeChunk("Never finished").event())
            assert await asyncio.to_thread(is_closed_at_once, server)
            return await until(client, None)

        events = converse(server, talk)
        assert Error.from_event(events[-1]).code == "timeout"
        server.settle()
