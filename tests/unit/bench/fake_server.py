"""Servers that follow a script and log when they did what."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

RATE = 24_000


def tone(seconds: float, level: float = 0.3) -> bytes:
    """16-bit samples of a tone that is audible from its first sample on."""
    n = round(seconds * RATE)
    return (np.cos(np.arange(n) * 0.3) * level * 32767).astype("<i2").tobytes()


def silence(seconds: float) -> bytes:
    return bytes(2 * round(seconds * RATE))


@dataclass
class Script:
    """The response to a request: pauses and bytes, and how it ends."""

    steps: Sequence[tuple[float, bytes]]
    """Seconds to wait, then the bytes to send."""
    end: str = "whole"
    """`whole`, or `drop`: the connection breaks before the response is complete."""
    status: int = 200
    content_type: str = "audio/pcm"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Log:
    """What happened, timed by the client's clock."""

    sent_s: list[list[float]] = field(default_factory=list)
    bodies: list[dict] = field(default_factory=list)
    now: int = 0
    most_at_once: int = 0


class FakeServer:
    """HTTP/1.1 with chunked bodies on plain asyncio streams."""

    def __init__(self, script: Script | Callable[[dict], Script]) -> None:
        self._script = script
        self.log = Log()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._one(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if head.startswith(b"GET"):  # it knows nothing but speech
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
        length = next(int(value) for name, value in fields.items() if name.lower() == "content-length")
        body = json.loads(await reader.readexactly(length))
        self.log.bodies.append(body)
        self.log.now += 1
        self.log.most_at_once = max(self.log.most_at_once, self.log.now)
        try:
            await self._send(self._script(body) if callable(self._script) else self._script, writer)
        finally:
            self.log.now -= 1

    async def _send(self, script: Script, writer: asyncio.StreamWriter) -> None:
        moments: list[float] = []
        self.log.sent_s.append(moments)
        headers = {"Content-Type": script.content_type, "Transfer-Encoding": "chunked", **script.headers}
        lines = [f"HTTP/1.1 {script.status} OK", *(f"{name}: {value}" for name, value in headers.items())]
        opening = ("\r\n".join(lines) + "\r\n\r\n").encode()
        for pause_s, data in script.steps:
            await asyncio.sleep(pause_s)
            moments.append(time.perf_counter())
            writer.write(opening + f"{len(data):x}\r\n".encode() + data + b"\r\n")
            opening = b""
            await writer.drain()
        if script.end == "drop":
            writer.close()
            raise ConnectionError
        writer.write(opening + b"0\r\n\r\n")
        await writer.drain()


@asynccontextmanager
async def serving(script: Script | Callable[[dict], Script]) -> AsyncIterator[tuple[str, Log]]:
    """Runs a fake server in this event loop; yields its address and its log."""
    fake = FakeServer(script)
    server = await asyncio.start_server(fake.answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", fake.log
    finally:
        server.close()


@contextmanager
def serving_in_thread(script: Script | Callable[[dict], Script]) -> Iterator[tuple[str, Log]]:
    """Runs it in a thread, for clients with an event loop of their own."""
    ready: list[tuple[str, Log]] = []
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        async with serving(script) as address_and_log:
            ready.append(address_and_log)
            started.set()
            await stop.wait()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@contextmanager
def recogniser_saying(texts: Sequence[str]) -> Iterator[str]:
    """Yields an OpenAI-compatible transcription URL that returns these texts in turn."""
    heard = iter(texts)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"]))
            good = self.path == "/v1/audio/transcriptions" and b"RIFF" in form and b'name="model"' in form
            answer = json.dumps({"text": next(heard)} if good else {"error": "bad form"}).encode()
            self.send_response(200 if good else 400)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
