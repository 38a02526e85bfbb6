"""Compares `rhapsode bench capacity` with one and two real servers.

    python benchmarks/capacity_check.py [--seconds 60] [--busy 0.7] [--tolerance 0.15]

The servers are processes of their own and run the dummy family with a talker that sleeps: a frame takes 8 ms, and 20 ms
for each listener. So two servers do not slow each other down, as long as the machine is otherwise quiet. The curve
comes from closed loops. Then requests arrive at random, at this share of what the replicas can do, and the same
arrivals are simulated. The client chooses among two servers as the cluster's edge does. Ends with status 1 if a ratio
is off by more than the tolerance.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from rhapsode.bench.capacity.curve import ReplicaCurve, read_curve  # noqa: E402
from rhapsode.bench.capacity.edge import SimulatedEdge  # noqa: E402
from rhapsode.bench.capacity.scaler import ScalingPlan  # noqa: E402
from rhapsode.bench.capacity.simulate import POLL_S, simulate  # noqa: E402
from rhapsode.bench.capacity.traffic import Traffic  # noqa: E402
from rhapsode.bench.serve.client import SpeechClient, TimedResponse, make_session  # noqa: E402
from rhapsode.bench.serve.load_level import LoadLevel  # noqa: E402
from rhapsode.bench.serve.measure import ServePlan, measure  # noqa: E402
from rhapsode.bench.serve.server import speech_server  # noqa: E402
from unit.engine.slow import FRAME_S, SLOW, UNTRACED  # noqa: E402

LEVELS = (1, 2, 3, 4)
SLOTS, MAX_QUEUE = 4, 64
FRAMES = range(6, 26)
"""Lengths of speech: the dummy speaks a frame per character."""


def serve_slow(folder: str) -> None:
    """Serves the slow dummy in this process, and writes its port to standard output."""
    from rhapsode.config import resolve
    from rhapsode.models.registry import Model
    from rhapsode.serve.app import create_app
    from rhapsode.serve.server import Server, listen

    limits = {"max_concurrency": SLOTS, "max_queue": MAX_QUEUE, "max_positions": 256}
    flags = {"model": SLOW.name, "limits": limits, "server": {"voices": folder}, **UNTRACED}
    listener = listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    Server(create_app(resolve(env={}, flags=flags), Model(SLOW, None, {}))).run([listener])


@contextmanager
def running(folder: str) -> Iterator[str]:
    command = [sys.executable, __file__, "--serve", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            asyncio.run(ready(url))
            yield url
        finally:
            process.kill()


async def ready(url: str) -> None:
    async with make_session() as session:
        for _ in range(600):
            async with session.get(f"{url}/ready") as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.1)
    raise RuntimeError(f"{url} is not ready after a minute")


def measure_curve(url: str, requests: int) -> ReplicaCurve:
    plan = ServePlan(
        speech_server(url, "rhapsode"),
        tuple(LoadLevel("closed", level) for level in LEVELS),
        tuple("x" * frames for frames in FRAMES),
        requests=requests,
    )
    return read_curve(measure(plan), SLOTS)


def arrivals(curve: ReplicaCurve, replicas: int, busy: float, seconds: float, seed: int) -> Traffic:
    rng = np.random.default_rng(seed)
    mean_audio_s = float(np.mean(FRAMES)) * FRAME_S
    rate = busy * replicas * curve.audio_s_per_s(mean_audio_s) / mean_audio_s
    count = int(rate * seconds)
    at_s = np.sort(rng.uniform(0, seconds, count))
    return Traffic(at_s - at_s[0], rng.choice(FRAMES, count) * FRAME_S, [None] * count)


async def play_traffic(urls: Sequence[str], traffic: Traffic) -> list[TimedResponse]:
    """Sends the requests when they are due, each to the server that the edge would choose."""
    edge, in_flight = SimulatedEdge(), dict.fromkeys(range(len(urls)), 0)
    async with make_session() as session:
        clients = [SpeechClient(session, speech_server(url, "rhapsode")) for url in urls]
        started_s = time.perf_counter()

        async def poll() -> None:
            while True:
                edge.poll(in_flight)
                await asyncio.sleep(POLL_S)

        async def send(i: int) -> TimedResponse:
            due_s = started_s + traffic.at_s[i]
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            number = edge.choose(None)
            assert number is not None
            in_flight[number] += 1
            response = await clients[number].request("x" * round(traffic.audio_s[i] / FRAME_S), i, due_s)
            in_flight[number] -= 1
            return response

        polling = asyncio.create_task(poll())
        await asyncio.sleep(0)
        try:
            return await asyncio.gather(*(send(i) for i in range(len(traffic))))
        finally:
            polling.cancel()


def compare(urls: Sequence[str], curve: ReplicaCurve, busy: float, seconds: float, seed: int) -> list[float]:
    """Prints what was measured and simulated, and returns the ratios."""
    traffic = arrivals(curve, len(urls), busy, seconds, seed)
    responses = asyncio.run(play_traffic(urls, traffic))
    simulated = simulate(curve, traffic, ScalingPlan(len(urls), len(urls)), MAX_QUEUE, seed)
    first_s = np.array([one.playable_s for one in responses if one.playable_s is not None])
    ends_s = np.array([at_s + one.total_s for at_s, one in zip(traffic.at_s, responses, strict=True)])
    audio_s = float(traffic.audio_s.sum())
    rows = {"audio-s/s": (audio_s / ends_s.max(), audio_s / simulated.ended_s)}
    for name, share in (("first audio p50 ms", 0.5), ("p90 ms", 0.9), ("p99 ms", 0.99)):
        rows[name] = (float(np.quantile(first_s, share)) * 1e3, float(np.quantile(simulated.first_s, share)) * 1e3)
    print(f"\n{len(urls)} replicas, {len(traffic)} requests, {len(responses) - len(first_s)} failed")
    for name, (real, made) in rows.items():
        print(f"{name:>20}  measured {real:8.1f}  simulated {made:8.1f}  ratio {made / real:.2f}", flush=True)
    return [made / real for real, made in rows.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--busy", type=float, default=0.7)
    parser.add_argument("--requests", type=int, default=40, help="of every closed loop of the curve")
    parser.add_argument("--tolerance", type=float, default=0.15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve_slow(given.serve)
        return
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        urls = [stack.enter_context(running(f"{folder}/{i}")) for i in range(2)]
        curve = measure_curve(urls[0], given.requests)
        print(f"one replica: {curve.places} at once, pace {curve.pace[1:].round(3)}")
        ratios = [r for n in (1, 2) for r in compare(urls[:n], curve, given.busy, given.seconds, given.seed)]
    worst = max(abs(ratio - 1) for ratio in ratios)
    print(f"\nthe largest difference is {worst:.0%}")
    sys.exit(worst > given.tolerance)


if __name__ == "__main__":
    main()
