"""A really started server: a process of its own, reached over a real socket."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import numpy as np
import openai
import yaml
from websockets.sync.client import connect

from forked import Program, start
from hearing import hear
from rhapsode.audio.decode import decode
from rhapsode.config import resolve
from rhapsode.models.registry import Model
from rhapsode.serve.app import create_app
from rhapsode.serve.ports import listen
from rhapsode.serve.server import Server
from rhapsode.types import Clip
from unit.command import environment

LETTER_S = 0.08  # the dummy speaks one frame of 80 ms a letter, at 16 kHz
LETTER_BYTES = 2 * 1280
ANSWER_S = 120  # more than a model takes to load on a busy machine
CALLBACK_CPU_S = 0.1  # the rule is 0.05; a loaded machine doubles the CPU time of the same work


def stolen_s() -> float:
    """How long other guests of the host kept the processors of this machine, which counts as CPU time of what ran."""
    stat = Path("/proc/stat")
    return int(stat.read_text().split()[8]) / os.sysconf("SC_CLK_TCK") if stat.exists() else 0.0


class Running:
    """A server that has been started, and ways to talk to it."""

    def __init__(self, process: Program | None, url: str, log: list[str]) -> None:
        self.process = process
        self.url = url
        self.log = log
        self.wyoming_port: int | None = None
        self._stolen_s = stolen_s()
        self.http = httpx2.Client(base_url=url, timeout=ANSWER_S, trust_env=False)
        self.openai = openai.OpenAI(
            base_url=f"{url}/v1",
            api_key="none",
            max_retries=0,
            http_client=httpx2.Client(timeout=ANSWER_S, trust_env=False),
        )

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    @property
    def socket_url(self) -> str:
        return f"ws{self.url.removeprefix('http')}/v1/audio/speech/stream"

    def speak(self, text: str = "Hello there.", **fields) -> httpx2.Response:
        return self.http.post("/v1/audio/speech", json={"input": text, **fields})

    def converse(self, text: str, piece: int, **config) -> bytes:
        """The audio of a text that is sent over the WebSocket, so many characters at a time."""
        audio = b""
        with connect(self.socket_url, proxy=None, max_size=None) as socket:
            socket.send(json.dumps({"type": "session.config", "response_format": "pcm", **config}))
            for start in range(0, len(text), piece):
                socket.send(json.dumps({"type": "input.text", "text": text[start : start + piece]}))
            socket.send(json.dumps({"type": "input.done"}))
            while True:
                message = socket.recv(timeout=20)
                if isinstance(message, bytes):
                    audio += message
                elif json.loads(message)["type"] == "session.done":
                    return audio

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over all series that have these labels."""
        total = 0.0
        for line in self.http.get("/metrics").text.splitlines():
            found = re.fullmatch(rf"{name}(\{{.*\}})? (\S+)", line)
            if found and all(f'{k}="{v}"' in (found[1] or "") for k, v in labels.items()):
                total += float(found[2])
        return total

    def check_callbacks(self) -> None:
        """No callback may have kept the event loop busy for long, whatever the test did."""
        try:
            lines = self.http.get("/metrics").text.splitlines()
        except httpx2.TransportError:  # the test has ended the server
            return
        longest = [line.rpartition(" ") for line in lines if line.startswith("rhapsode_longest_callback_cpu_seconds{")]
        allowed_s = CALLBACK_CPU_S + stolen_s() - self._stolen_s
        slow = [(origin, float(cpu_s)) for origin, _, cpu_s in longest if float(cpu_s) > allowed_s]
        assert not slow, f"callbacks that blocked the event loop: {slow}"

    def settle(self, tasks: float | None = None, timeout_s: float = 10) -> None:
        """Wait until nobody is spoken for, and nothing is left of those who were."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            held = {
                name: self.metric(f"rhapsode_{name}")
                for name in ("slots_in_use", "pages_in_use", "queue_depth", "requests_in_flight", "open_websockets")
            }
            if tasks is not None:
                held["tasks"] = max(0, self.metric("rhapsode_tasks") - tasks)
            if not any(held.values()):
                return
            assert time.monotonic() < deadline_s, f"left behind: {held}"
            time.sleep(0.03)

    def close(self) -> None:
        self.openai.close()
        self.http.close()


@contextmanager
def running(model: str | None, folder: Path, *, wait: bool = True, **settings) -> Iterator[Running]:
    """`rhapsode serve` with this deployment, until the block is left. Without a model the settings name several."""
    server = {"port": 0, "debug": True, "voices": str(folder / "voices"), **settings.pop("server", {})}
    named = {"model": model} if model else {}
    deployment = {**named, "device": "cpu", **settings, "server": server}
    file = folder / "deployment.yaml"
    file.write_text(yaml.safe_dump(deployment))
    command = ["rhapsode", "serve", "--config", str(file)]
    env = environment(OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    errors, written = os.pipe()
    with open(os.devnull, "r+b") as nothing, os.fdopen(errors, "rb") as lines:
        process = start(command, folder, env, [nothing.fileno(), nothing.fileno(), written])
        os.close(written)
        log: list[str] = []
        listening = threading.Event()
        reader = threading.Thread(target=_read, args=(lines, log, listening), daemon=True)
        reader.start()
        try:
            assert listening.wait(60), "".join(log)
            found = re.search(r"http://\S+:\d+", "".join(log))
            assert found, "".join(log)
            server = Running(process, found[0], log)
            try:
                if wait:
                    await_health(server)
                yield server
                server.check_callbacks()
            finally:
                server.close()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)  # else its lines would not end
                raise
            finally:
                reader.join(timeout=10)


@contextmanager
def in_thread(model: str | Model, folder: Path, *, edge_secret: str = "", **settings) -> Iterator[Running]:
    """The same server in a thread of this process: quick to start, and for families that only a test has."""
    server = {"voices": str(folder / "voices"), "debug": True, **settings.pop("server", {})}
    name = model if isinstance(model, str) else model.spec.name
    deployment = resolve(env={}, flags={"model": name, "device": "cpu", **settings, "server": server})
    app = create_app(deployment, None if isinstance(model, str) else model, edge_secret)
    listener = listen("127.0.0.1", 0)
    wyoming = None if deployment.server.wyoming.port is None else listen("127.0.0.1", deployment.server.wyoming.port)
    uvicorn_server = Server(app, wyoming)
    thread = threading.Thread(target=uvicorn_server.run, args=([listener],))
    thread.start()
    server = Running(None, f"http://127.0.0.1:{listener.getsockname()[1]}", [])
    server.wyoming_port = wyoming.getsockname()[1] if wyoming else None
    try:
        await_health(server)
        yield server  # callbacks are not judged here: the garbage collector of all tests runs in them
    finally:
        server.close()
        uvicorn_server.should_exit = True
        thread.join(30)


def is_healthy(server: Running) -> bool:
    try:
        return server.http.get("/health").status_code == 200
    except httpx2.ConnectError:  # the port is bound, and nobody listens yet
        return False


def await_health(server: Running) -> None:
    deadline_s = time.monotonic() + 60
    while not is_healthy(server):
        assert server.process is None or server.process.poll() is None, "".join(server.log)
        assert time.monotonic() < deadline_s, "".join(server.log)
        time.sleep(0.05)


def _read(lines: Iterable[bytes], log: list[str], listening: threading.Event) -> None:
    for raw in lines:
        line = raw.decode("utf-8", "replace")
        log.append(line)
        if (
            "api keys" in line or "rhapsode:" in line
        ):  # one of the last of the lines that say what was resolved, or why not
            listening.set()
    listening.set()


def heard(data: bytes, response_format: str, sample_rate: int = 24_000) -> Clip:
    """What a player would play."""
    if response_format in ("pcm", "l16", "mulaw", "alaw", "opus_packets"):
        samples, sample_rate = hear(data, response_format, 1, sample_rate)
        return Clip(samples.astype(np.float32), sample_rate)
    return decode(data)
