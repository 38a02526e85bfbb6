"""Measures the CPU time of one request in a server's threads: bursts of requests over real HTTP to the dummy family.

    python benchmarks/request_cost.py [--bursts 32,128,256] [--rounds 5] [--characters 1,52] [--sources src,OTHER/src]
        [--processes 1,2]

Every server is a process of its own; with several sources (other checkouts), and with the engine in the server's
process or in a second one, their rounds alternate. CPU time is read from the kernel by thread, and the best round
counts, so other work on this machine matters little. The first thread is the event loop: HTTP, validation, submission
and delivery. The others are the engine's, which for the dummy also do the model's work. `writes` are pieces of audio
per request: their number depends on the engine's speed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

DEPLOYMENT = """
model: dummy
device: cpu
limits: {max_concurrency: 256, max_queue: 1024, max_positions: 256%s}
server: {port: 0, voices: %s%s}
"""


class Client(asyncio.Protocol):
    """One kept connection: sends a request, and is done when the last chunk has come."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] | None = None
        self.begun_s = 0.0
        self._last = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if not self.begun_s:
            assert data.startswith(b"HTTP/1.1 200"), data[:300]
            self.begun_s = time.perf_counter()
        self._last = (self._last + data)[-5:]
        if self._last == b"0\r\n\r\n" and self.ended is not None:
            self.ended.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self.ended is not None and not self.ended.done():
            self.ended.set_exception(ConnectionError("the server closed the connection: was it idle for 5 s?"))

    async def ask(self, request: bytes) -> float:
        """Returns the seconds until the response began."""
        self.ended, self.begun_s, self._last = asyncio.get_running_loop().create_future(), 0.0, b""
        started_s = time.perf_counter()
        self.transport.write(request)
        await self.ended
        return self.begun_s - started_s


@dataclass
class Rounds:
    """What was measured of one server."""

    event_loop_ms: list[float] = field(default_factory=list)
    others_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    writes: float = 0.0


@dataclass
class Served:
    """A running server."""

    name: str
    process: subprocess.Popen[bytes]
    port: int

    def cpu_s(self) -> tuple[float, float]:
        """CPU seconds of the first thread, and of all others, those of the engine's process among them."""
        main = Path(f"/proc/{self.process.pid}/task")
        engines = (main / str(self.process.pid) / "children").read_text().split()
        tasks = [task for pid in (self.process.pid, *engines) for task in Path(f"/proc/{pid}/task").iterdir()]
        spent = {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks}
        first = spent.pop(str(self.process.pid))
        return first, sum(spent.values())

    def writes(self) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as response:
            found = re.search(r"^rhapsode_chunk_gap_seconds_count (\S+)", response.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def request(self, characters: int) -> bytes:
        return request_of(self.port, characters)


def request_of(port: int, characters: int) -> bytes:
    """Returns a request as its bytes."""
    fields = {"input": "x" * characters, "seed": 1, "response_format": "pcm", "sample_rate": 16000}
    body = json.dumps(fields).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@contextmanager
def served(source: Path, processes: int) -> Iterator[Served]:
    is_new = "real_time" in (source / "rhapsode/config/__init__.py").read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder) / "deployment.yaml", Path(folder) / "log"
        apart = ", engine_process: true" if processes > 1 else ""
        file.write_text(DEPLOYMENT % (", real_time: false" if is_new else "", folder, apart))
        command = [sys.executable, "-m", "rhapsode", "serve", "--config", str(file)]
        packages = os.pathsep.join(filter(None, (str(source.resolve()), os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": packages, "OMP_NUM_THREADS": "1"}
        with log.open("wb") as stderr, subprocess.Popen(command, env=env, stderr=stderr) as process:
            try:
                while "model ready" not in log.read_text() and process.poll() is None:
                    time.sleep(0.1)
                found = re.search(r"http://\S+:(\d+)", log.read_text())
                assert found, log.read_text()
                yield Served(f"{source}, {processes} processes", process, int(found[1]))
            finally:
                process.kill()


async def burst(server: Served, clients: list[Client], request: bytes, into: Rounds) -> None:
    before = server.cpu_s()
    first_s = await asyncio.gather(*(client.ask(request) for client in clients))
    event_loop, others = ((b - a) / len(clients) * 1e3 for a, b in zip(before, server.cpu_s(), strict=True))
    into.event_loop_ms.append(event_loop)
    into.others_ms.append(others)
    into.first_ms.append(sorted(first_s)[len(first_s) // 2] * 1e3)


async def measure(servers: list[Served], size: int, rounds: int, characters: int) -> list[Rounds]:
    loop = asyncio.get_running_loop()
    clients = {
        s.name: [(await loop.create_connection(Client, "127.0.0.1", s.port))[1] for _ in range(size)] for s in servers
    }
    measured = [Rounds() for _ in servers]
    for server in servers:
        await burst(server, clients[server.name], server.request(characters), Rounds())  # warm-up
    before = [server.writes() for server in servers]
    for _ in range(rounds):
        for server, into in zip(servers, measured, strict=True):
            await burst(server, clients[server.name], server.request(characters), into)
    for server, into, earlier in zip(servers, measured, before, strict=True):
        into.writes = 1 + (server.writes() - earlier) / (rounds * size)
        for client in clients[server.name]:
            client.transport.close()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bursts", default="32,128,256")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--characters", default="1,52")
    parser.add_argument("--sources", default=str(Path(__file__).parents[1] / "src"))
    parser.add_argument("--processes", default="1,2")
    given = parser.parse_args()
    print("CPU ms per request\nburst  chars   event loop       others       writes  first p50 ms  source")
    with ExitStack() as stack:
        servers = [
            stack.enter_context(served(Path(source), int(processes)))
            for source in given.sources.split(",")
            for processes in given.processes.split(",")
        ]
        for size in map(int, given.bursts.split(",")):
            for characters in map(int, given.characters.split(",")):
                for server, found in zip(
                    servers, asyncio.run(measure(servers, size, given.rounds, characters)), strict=True
                ):
                    best = (min(found.event_loop_ms), min(found.others_ms), found.writes, min(found.first_ms))
                    columns = " ".join(f"{value:12.3f}" for value in best)
                    print(f"{size:5} {characters:6} {columns}  {server.name}", flush=True)


if __name__ == "__main__":
    main()
