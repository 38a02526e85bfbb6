"""Compares `rhapsode bench capacity` with one and two real servers.

    python benchmarks/capacity_check.py [--seconds 90] [--busy 0.7] [--tolerance 0.15]

The servers are processes of their own and run the dummy family with a talker that sleeps: a frame takes 8 ms, and 20 ms
for each listener. So two servers do not slow each other down, as long as the machine is otherwise quiet. The curve
comes from closed loops with pauses, about a minute. Then requests arrive at random, at this share of what the replicas
can do, twice for so many seconds, and the same arrivals are simulated. The client chooses among two servers as the
cluster's edge does. Admission by pace is off: it follows what a server measures of itself, which changes when other
programs run. Ends with status 1 if a ratio is off by more than the tolerance.
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
FRAMES = range(4, 14)
"""Lengths of speech: the dummy speaks a frame per character."""
PAUSE_S = 0.1
"""A little more than a frame takes, so that requests arrive at any moment of one."""
DRAWS = 10
"""Simulations of the same arrivals, which differ in the first audio that is drawn from the curve."""


def serve_slow(folder: str) -> None:
    """Serves the slow dummy in this process, and writes its port to standard output."""
    from rhapsode.config import resolve
    from rhapsode.models.registry import Model
    from rhapsode.serve.app import create_app
    from rhapsode.serve.server import Server, listen

    limits = {"max_concurrency": SLOTS, "max_queue": MAX_QUEUE, "max_positions": 256, "real_time": False}
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
        tuple(LoadLevel("closed", level, PAUSE_S) for level in LEVELS),
        tuple("x" * frames for frames in FRAMES),
        requests=requests,
    )
    return read_curve(measure(plan), SLOTS, real_time=False)


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
            edge.ended(number)
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
    made = [simulate(curve, traffic, ScalingPlan(len(urls), len(urls)), MAX_QUEUE, seed + i) for i in range(DRAWS)]
    good = [one for one in responses if one.ok and one.playback is not None]
    first_ms = np.array([one.playable_s for one in good], np.float64) * 1e3
    simulated_ms = np.concatenate([one.first_s for one in made]) * 1e3
    ends_s = max(at_s + one.total_s for at_s, one in zip(traffic.at_s, responses, strict=True))
    audio_s = float(traffic.audio_s.sum())
    rows = {
        f"first audio p{share} ms": [np.percentile(times, share) for times in (first_ms, simulated_ms)]
        for share in (50, 95)
    }
    rows["first audio mean ms"] = [first_ms.mean(), simulated_ms.mean()]
    rows["audio-s per s"] = [audio_s / ends_s, audio_s / float(np.mean([one.ended_s for one in made]))]
    underruns = sum(one.playback.underruns > 0 for one in good if one.playback is not None)
    gaps = float(np.mean([one.with_gap for one in made]))
    print(f"\n{len(urls)} replicas, {len(traffic)} requests, {len(responses) - len(good)} failed")
    print(f"{'':>22}{'measured':>12}{'simulated':>12}{'ratio':>8}")
    for name, (real, simulated) in rows.items():
        print(f"{name:>22}{real:12.1f}{simulated:12.1f}{simulated / real:8.2f}")
    print(f"{'with an underrun':>22}{underruns:12d}{gaps:12.1f}", flush=True)
    return [float(simulated / real) for real, simulated in rows.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--busy", type=float, default=0.7)
    parser.add_argument("--requests", type=int, default=60, help="of every closed loop of the curve")
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
        print(
            f"one replica: {curve.places} at once, pace {curve.pace[1:].round(3)}, head {curve.head_s[1:].round(2)} s"
        )
        ratios = [r for n in (1, 2) for r in compare(urls[:n], curve, given.busy, given.seconds, given.seed)]
    worst = max(abs(ratio - 1) for ratio in ratios)
    print(f"\nthe largest difference is {worst:.0%}")
    sys.exit(worst > given.tolerance)


if __name__ == "__main__":
    main()
