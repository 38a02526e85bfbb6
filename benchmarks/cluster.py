"""Measures what the cluster adds to first audio, and how throughput grows with replicas.

    python benchmarks/cluster.py [--rounds 200] [--turns 3] [--seconds 15] [--output cluster.json]

First audio: one listener, the same request to a single server, to the edge of a cluster, and through Ray's own proxy to
the same edge, in turns, so that other work on this machine disturbs all alike. Throughput: a dummy whose frame sleeps
instead of computing, with one replica and with two, in turns, each with more listeners than slots. The sleep is long
enough that two cores are mostly idle: the ratio is that of the replicas, and not of the client or the edge. The cores
that each group of processes has kept busy are in the result. Ends with status 1 if the edge adds more than 10 ms, or if
two replicas make less than 1.8 times the audio of one.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # otherwise Ray writes a token into the home of whoever runs this

import ray
from cpu_share import counted_cpu
from ray import serve

from rhapsode.cluster.application import APPLICATION, EDGE, build_application
from rhapsode.config.cluster import read_cluster

TEXT = "The quick brown fox jumps over the lazy dog."
SLOTS, LISTENERS = 4, 6
"""Of one replica. More listeners than slots: a slot that becomes free is taken at once."""
FRAMES, FRAME_S, SLEEP_S, BYTES_PER_S = 20, 0.08, 0.2, 48_000
"""Of one request; a frame of the dummy plays 80 ms, and takes the sleep."""
SETTLE_S = 5.0
MOST_ADDED_MS, LEAST_RATIO = 10.0, 1.8
SLEEPY = {"model": "dummy", "device": "cpu", "graphs": False, "options": {"frame_sleep_s": SLEEP_S}}
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


@dataclass(frozen=True)
class Throughput:
    """One turn of a model under full load."""

    audio_s_per_s: float
    cores: dict[str, float]
    """How many cores each group of processes has kept busy."""


def throughput(port: int, model: str, listeners: int, seconds: float) -> Throughput:
    """Counts the audio that so many clients, who ask without a pause, receive within these seconds.

    The clients have started before, and go on until all is counted: so the start and the last requests do not count.
    """
    received = [0] * listeners
    is_over = threading.Event()

    def listen(number: int) -> None:
        body = json.dumps({"input": "x" * FRAMES, "response_format": "pcm", "model": model})
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while not is_over.is_set():
            connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(f"status {answer.status}: {answer.read()[:200]!r}")
            while not is_over.is_set() and (data := answer.read1(65536)):
                received[number] += len(data)
        connection.close()

    threads = [threading.Thread(target=listen, args=(number,)) for number in range(listeners)]
    for thread in threads:
        thread.start()
    time.sleep(SETTLE_S)
    cores: dict[str, float] = {}
    with counted_cpu(cores):
        before, started_s = sum(received), time.perf_counter()
        time.sleep(seconds)
        heard, wall_s = sum(received) - before, time.perf_counter() - started_s
    is_over.set()
    for thread in threads:
        thread.join()
    return Throughput(heard / BYTES_PER_S / wall_s, cores)


def compare_replicas(port: int, turns: int, seconds: float) -> dict[str, Any]:
    """Measures one replica and two in turns, so that other work on this machine disturbs both alike."""
    runs: dict[str, list[Throughput]] = {"one": [], "two": []}
    for _ in range(turns):
        for replicas, (model, found) in enumerate(runs.items(), 1):
            found.append(throughput(port, model, replicas * LISTENERS, seconds))
    made = {model: statistics.mean(run.audio_s_per_s for run in found) for model, found in runs.items()}
    return {
        "audio_per_second": {model: round(value, 2) for model, value in made.items()},
        "possible": {model: round(count * SLOTS * FRAME_S / SLEEP_S, 2) for count, model in enumerate(runs, 1)},
        "cores": {model: [run.cores for run in found] for model, found in runs.items()},
        "two_against_one": round(made["two"] / made["one"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="of one turn")
    parser.add_argument("--output", type=Path)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, cluster(Path(name)) as (edge, proxy):
        with single_server(Path(name)) as single:
            first = first_audio_ms({"single": single, "edge": edge, "ray_proxy": proxy}, wanted.rounds)
        scaled = compare_replicas(edge, wanted.turns, wanted.seconds)
    adds_ms = round(first["edge"] - first["single"], 2)
    found = {
        "first_audio_p50_ms": first,
        "edge_adds_ms": adds_ms,
        "ray_proxy_adds_ms": round(first["ray_proxy"] - first["single"], 2),
        **scaled,
        "load_average": os.getloadavg(),
    }
    print(json.dumps(found, indent=2))
    if wanted.output:
        wanted.output.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(adds_ms > MOST_ADDED_MS or found["two_against_one"] < LEAST_RATIO)


if __name__ == "__main__":
    main()
