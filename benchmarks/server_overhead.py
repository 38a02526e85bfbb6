"""Measures what HTTP adds to the first audio of one listener: the same request over HTTP and directly to the engine.

    python benchmarks/server_overhead.py [--model dummy] [--rounds 100] [--format pcm] [--sample-rate 24000]

Server, engine and client share one process. Requests alternate, so that other work on this machine disturbs both alike.
The client keeps its connection, as real clients do.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import logging
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rhapsode.config import resolve
from rhapsode.engine import Engine
from rhapsode.serve.app import create_app
from rhapsode.serve.server import Server
from rhapsode.serve.service import Service
from rhapsode.types import SpeechRequest

TEXT = "The quick brown fox jumps over the lazy dog."


@contextmanager
def served(model: str, voices: str) -> Iterator[tuple[Service, int]]:
    limits = {"max_concurrency": 8, "max_positions": 1024}
    settings = {"model": model, "device": "cpu", "limits": limits, "server": {"voices": voices}}
    app = create_app(resolve(env={}, flags=settings))
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(app)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not app.state.service.host.warm:
        time.sleep(0.05)
    yield app.state.service, listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def direct_s(engine: Engine) -> float:
    started_s = time.perf_counter()
    with engine.submit(SpeechRequest(TEXT, seed=1)) as speech:
        speech.get()
        first_s = time.perf_counter() - started_s
        for _ in speech:
            pass
    return first_s


def over_http_s(connection: http.client.HTTPConnection, response_format: str, sample_rate: int) -> float:
    fields = {"input": TEXT, "seed": 1, "response_format": response_format, "sample_rate": sample_rate}
    body = json.dumps(fields)
    started_s = time.perf_counter()
    connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    assert response.read1(1)
    first_s = time.perf_counter() - started_s
    response.read()
    return first_s


def p(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1] * 1e3


async def engine_of(service: Service) -> Engine:
    async with service.host.lease() as engine:
        return engine


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", default="dummy")
    arguments.add_argument("--rounds", type=int, default=100)
    arguments.add_argument("--format", default="pcm", help="pcm costs nothing to encode; others show their codec")
    arguments.add_argument("--sample-rate", type=int, help="the model's own by default; others show the resampler")
    given = arguments.parse_args()
    logging.disable()
    with tempfile.TemporaryDirectory() as voices, served(given.model, voices) as (service, port):
        engine = asyncio.run(engine_of(service))
        rate = given.sample_rate or service.spec.sample_rate
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for _ in range(10):
            direct_s(engine), over_http_s(connection, given.format, rate)
        pairs = [(direct_s(engine), over_http_s(connection, given.format, rate)) for _ in range(given.rounds)]
        connection.close()
    direct, over_http = [list(times) for times in zip(*pairs, strict=True)]
    print(f"{given.model}, {given.format} at {rate} Hz, one listener, {given.rounds} rounds: first audio (ms)")
    print(f"{'':8}{'p50':>8}{'p90':>8}")
    print(f"{'direct':8}{p(direct, 50):8.2f}{p(direct, 90):8.2f}")
    print(f"{'http':8}{p(over_http, 50):8.2f}{p(over_http, 90):8.2f}")
    print(f"{'added':8}{p(over_http, 50) - p(direct, 50):8.2f}{p(over_http, 90) - p(direct, 90):8.2f}")


if __name__ == "__main__":
    main()
