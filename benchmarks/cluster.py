"""Measures what the cluster adds to first audio, and how throughput grows with replicas.

    python benchmarks/cluster.py [--rounds 200] [--seconds 20] [--output cluster.json]

First audio: one listener, the same request to a single server, to the edge of a cluster, and through Ray's own proxy to
the same edge, in turns, so that other work on this machine disturbs all alike. Throughput: a dummy whose frame sleeps
instead of computing, with one replica and with two, each with as many listeners as slots.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray import serve

from rhapsode.cluster.application import APPLICATION, EDGE, build_application
from rhapsode.config.cluster import read_cluster

TEXT = "The quick brown fox jumps over the lazy dog."
SLOTS = 4
SLEEPY = {"model": "dummy", "device": "cpu", "graphs": False, "options": {"frame_sleep_s": 0.05}}
PLAIN = {"model": "dummy", "device": "cpu", "limits": {"max_concurrency": 8, "max_positions": 1024}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[int, int]]:
    """A local cluster; yields the port of its edge and that of Ray's proxy."""
    proxy = free_port()
    limits = {"max_concurrency": SLOTS, "max_queue": 64, "real_time": False, "max_positions": 1024}
    sleepy = SLEEPY | {"limits": limits}
    models = {
        "plain": {"deployment": PLAIN, "cpus": 0.2},
        "one": {"deployment": sleepy, "replicas": 1, "cpus": 0.2},
        "two": {"deployment": sleepy, "replicas": 2, "cpus": 0.2},
    }
    config = read_cluster({"models": models, "server": {"port": 0, "voices": str(folder / "voices")}}, env={})
    ray.init(
        "local",
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="warning",
        _node_ip_address="127.0.0.1",
    )
    serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": proxy})
    serve.run(build_application(config), name=APPLICATION, route_prefix="/")
    url = serve.get_deployment_handle(EDGE, APPLICATION).address.remote().result(timeout_s=60)
    try:
        yield int(url.rpartition(":")[2]), proxy
    finally:
        serve.delete(APPLICATION)
        serve.shutdown()
        ray.shutdown()


@contextmanager
def single_server(folder: Path) -> Iterator[int]:
    port = free_port()
    file = folder / "single.yaml"
    file.write_text(json.dumps(PLAIN | {"server": {"port": port, "voices": str(folder)}}))
    with subprocess.Popen(
        [sys.executable, "-m", "rhapsode", "serve", "-c", str(file)], stderr=subprocess.DEVNULL
    ) as run:
        try:
            while not is_healthy(port):
                time.sleep(0.2)
            yield port
        finally:
            run.terminate()


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def first_audio_s(connection: http.client.HTTPConnection) -> float:
    body = json.dumps({"input": TEXT, "response_format": "pcm", "seed": 1})
    started_s = time.perf_counter()
    connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read1(1)
    first_s = time.perf_counter() - started_s
    answer.read()
    return first_s


def first_audio_ms(ports: dict[str, int], rounds: int) -> dict[str, float]:
    """Returns the median for each port; the requests take turns."""
    connections = {name: http.client.HTTPConnection("127.0.0.1", port) for name, port in ports.items()}
    taken: dict[str, list[float]] = {name: [] for name in ports}
    for _ in range(rounds):
        for name, connection in connections.items():
            taken[name].append(1000 * first_audio_s(connection))
    return {name: round(statistics.median(times[rounds // 10 :]), 2) for name, times in taken.items()}


def audio_per_second(port: int, model: str, listeners: int, seconds: float) -> float:
    """Returns seconds of audio made per second while so many clients ask without a pause."""
    made = [0] * listeners
    deadline_s = time.perf_counter() + seconds

    def listen(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        body = json.dumps({"input": "x" * 60, "response_format": "pcm", "model": model})
        while time.perf_counter() < deadline_s:
            connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            data = answer.read()
            made[number] += len(data) if answer.status == 200 else 0

    started_s = time.perf_counter()
    threads = [threading.Thread(target=listen, args=(number,)) for number in range(listeners)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(made) / 48_000 / (time.perf_counter() - started_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--output", type=Path)
    wanted = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        single_server(Path(name)) as single,
        cluster(Path(name)) as (edge, proxy),
    ):
        first = first_audio_ms({"single": single, "edge": edge, "ray_proxy": proxy}, wanted.rounds)
        one = audio_per_second(edge, "one", SLOTS, wanted.seconds)
        two = audio_per_second(edge, "two", 2 * SLOTS, wanted.seconds)
    found = {
        "first_audio_p50_ms": first,
        "edge_adds_ms": round(first["edge"] - first["single"], 2),
        "ray_proxy_adds_ms": round(first["ray_proxy"] - first["single"], 2),
        "audio_per_second": {"one replica": round(one, 1), "two replicas": round(two, 1)},
        "two_against_one": round(two / one, 3),
    }
    print(json.dumps(found, indent=2))
    if wanted.output:
        wanted.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
