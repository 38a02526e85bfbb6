"""Compares `rhapsode bench capacity` with one and two real servers.

    python benchmarks/capacity_check.py [--busy 0.5,0.7,0.85] [--replicas 1,2] [--seed 0] [--curve curve.json]

The servers are processes of their own and run the dummy family with a talker that sleeps: a frame takes 12 ms, and
20 ms for each listener. So servers do not slow each other down, as long as the machine is otherwise quiet. The curve
comes from closed loops with pauses, about a minute; with `--curve` it is kept in a file for later calls. Then requests
arrive at random, at this share of what the replicas can do, for `--seconds`. They are sent to two groups of servers at
the same time, which shows how much two equal runs differ, and the same arrivals are simulated. The client chooses among
the servers of a group as the cluster's edge does. Admission by pace is off: it follows what a server measures of
itself, which changes when other programs run.

A simulated percentile is compared with that of both runs together. It is good if it is within the tolerance, or if it
is their percentile of a share that differs by at most two points: between two groups of requests a percentile jumps.
Everything else must be within the tolerance. Ends with status 1 if something is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from rhapsode.bench.capacity.curve import ReplicaCurve, read_curve  # noqa: E402
from rhapsode.bench.capacity.edge import SimulatedEdge  # noqa: E402
from rhapsode.bench.capacity.scaler import ScalingPlan  # noqa: E402
from rhapsode.bench.capacity.simulate import POLL_S, SimulationResult, simulate  # noqa: E402
from rhapsode.bench.capacity.traffic import Traffic  # noqa: E402
from rhapsode.bench.serve.client import SpeechClient, TimedResponse, make_session  # noqa: E402
from rhapsode.bench.serve.load_level import LoadLevel  # noqa: E402
from rhapsode.bench.serve.measure import ServePlan, measure  # noqa: E402
from rhapsode.bench.serve.server import speech_server  # noqa: E402
from unit.engine.slow import FRAME_S, STEADY, UNTRACED  # noqa: E402

LEVELS = (1, 2, 3, 4)
SLOTS, MAX_QUEUE = 4, 64
FRAMES = range(4, 14)
"""Lengths of speech: the dummy speaks a frame per character."""
PAUSE_S = 0.1
"""A little more than a frame takes, so that requests arrive at any moment of one."""
APART_S = 0.37
PERCENTILE, PERCENTILES = "first audio ms, p", (50, 95)
RANKS = 2.0
"""Percent of the requests."""
DRAWS = 10
"""Simulations of the same arrivals, which differ in the first audio that is drawn from the curve."""


def serve_steady(folder: str) -> None:
    """Serves the steady dummy in this process, and writes its port to standard output."""
    from rhapsode.config import resolve
    from rhapsode.models.registry import Model
    from rhapsode.serve.app import create_app
    from rhapsode.serve.ports import listen
    from rhapsode.serve.server import Server

    limits = {"max_concurrency": SLOTS, "max_queue": MAX_QUEUE, "max_positions": 256, "real_time": False}
    flags = {"model": STEADY.name, "limits": limits, "server": {"voices": folder}, **UNTRACED}
    listener = listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    Server(create_app(resolve(env={}, flags=flags), Model(STEADY, None, {}))).run([listener])


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


def measure_curve(urls: Sequence[str], requests: int) -> dict[str, Any]:
    """Measures several servers at the same time, as they will run later, and returns the report of the first one."""
    loads = tuple(LoadLevel("closed", level, PAUSE_S) for level in LEVELS)
    texts = tuple("x" * frames for frames in FRAMES)
    plans = [ServePlan(speech_server(url, "rhapsode"), loads, texts, requests=requests) for url in urls]
    with ThreadPoolExecutor(len(plans)) as pool:
        return next(pool.map(measure, plans))


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


async def play_in_groups(groups: Sequence[Sequence[str]], traffic: Traffic) -> list[list[TimedResponse]]:
    """Sends the requests to all groups, a little later to each, so that they do not wait for each other's processes."""

    async def play_later(i: int) -> list[TimedResponse]:
        await asyncio.sleep(i * APART_S)
        return await play_traffic(groups[i], traffic)

    return await asyncio.gather(*(play_later(i) for i in range(len(groups))))


@dataclass(frozen=True)
class Outcome:
    """What listeners got, measured or simulated."""

    first_ms: NDArray[np.float64]
    audio_s_per_s: float
    underruns: float

    @classmethod
    def measured(cls, traffic: Traffic, responses: Sequence[TimedResponse]) -> Outcome:
        ends_s = max(at_s + one.total_s for at_s, one in zip(traffic.at_s, responses, strict=True))
        good = [(one, one.playback) for one in responses if one.ok and one.playback is not None]
        first_ms = np.array([((one.playable_s or 0.0) - one.late_s) * 1e3 for one, _ in good])
        return cls(first_ms, float(traffic.audio_s.sum()) / ends_s, sum(played.underruns > 0 for _, played in good))

    @classmethod
    def simulated(cls, traffic: Traffic, made: Sequence[SimulationResult]) -> Outcome:
        first_ms = np.concatenate([one.first_s for one in made]) * 1e3
        ended_s = float(np.mean([one.ended_s for one in made]))
        gaps = float(np.mean([one.with_gap for one in made]))
        return cls(first_ms, float(traffic.audio_s.sum()) / ended_s, gaps)

    def rows(self) -> dict[str, float]:
        found = {f"{PERCENTILE}{share}": float(np.percentile(self.first_ms, share)) for share in PERCENTILES}
        return {**found, "first audio ms, mean": float(self.first_ms.mean()), "audio-s per s": self.audio_s_per_s}


def compare(first: Outcome, second: Outcome, simulated: Outcome, tolerance: float) -> bool:
    """Prints what was measured twice and simulated, and returns whether it agrees."""
    both = np.concatenate([first.first_ms, second.first_ms])
    together = Outcome(both, (first.audio_s_per_s + second.audio_s_per_s) / 2, 0.0).rows()
    print(f"{'':>22}{'measured':>10}{'again':>10}{'ratio':>7}{'simulated':>11}{'ratio':>7}  is measured")
    is_good = True
    for (name, one), again, made in zip(
        first.rows().items(), second.rows().values(), simulated.rows().values(), strict=True
    ):
        ratio, rank, good = made / together[name], "", abs(made / together[name] - 1) <= tolerance
        if name.startswith(PERCENTILE):
            below = float((both < made).mean()) * 100
            rank = f"p{below:.1f}"
            good |= abs(below - float(name.removeprefix(PERCENTILE))) <= RANKS
        is_good &= good
        print(
            f"{name:>22}{one:10.1f}{again:10.1f}{again / one:7.2f}{made:11.1f}{ratio:7.2f}  {rank}"
            + ("" if good else "  !")
        )
    print(
        f"{'with an underrun':>22}{first.underruns:10.0f}{second.underruns:10.0f}{'':7}{simulated.underruns:11.1f}",
        flush=True,
    )
    return is_good


def check(given: argparse.Namespace, urls: Sequence[str]) -> bool:
    report = json.loads(given.curve.read_text()) if given.curve and given.curve.exists() else None
    if report is None:
        report = measure_curve(urls[:2], given.requests)
        if given.curve:
            given.curve.write_text(json.dumps(report))
    curve = read_curve(report, SLOTS, real_time=False)
    print(
        f"one replica: a frame takes {(curve.pace[1:] * curve.frame_s * 1e3).round(1)} ms with 1 to {SLOTS} requests,"
    )
    print(
        f"{(curve.head_s[1:] / curve.frame_s).round()} frames come first, {curve.tail_s / curve.frame_s:.0f} are silent"
    )
    is_good = True
    for busy, replicas in product(given.busy, given.replicas):
        traffic = arrivals(curve, replicas, busy, given.seconds, given.seed)
        groups = [urls[:replicas], urls[replicas : 2 * replicas]]
        answers = asyncio.run(play_in_groups(groups, traffic))
        scaling = ScalingPlan(replicas, replicas)
        made = [simulate(curve, traffic, scaling, MAX_QUEUE, given.seed + i) for i in range(DRAWS)]
        failed = sum(not one.ok for responses in answers for one in responses)
        print(f"\n{busy:.0%} load, seed {given.seed}, {replicas} replicas, {len(traffic)} requests, {failed} failed")
        first, second = (Outcome.measured(traffic, responses) for responses in answers)
        is_good &= compare(first, second, Outcome.simulated(traffic, made), given.tolerance) and not failed
    return is_good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of arrivals, for each load and number of replicas")
    parser.add_argument("--busy", type=numbers(float), default=[0.5, 0.7, 0.85])
    parser.add_argument("--replicas", type=numbers(int), default=[1, 2])
    parser.add_argument("--requests", type=int, default=60, help="of every closed loop of the curve")
    parser.add_argument("--curve", type=Path, help="the file of the curve")
    parser.add_argument("--tolerance", type=float, default=0.15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve_steady(given.serve)
        return
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        urls = [stack.enter_context(running(f"{folder}/{i}")) for i in range(2 * max(given.replicas))]
        is_good = check(given, urls)
    print(f"\nthe simulation {'agrees' if is_good else 'does not agree'}")
    sys.exit(not is_good)


def numbers(kind: type) -> Callable[[str], list[Any]]:
    return lambda text: [kind(one) for one in text.split(",")]


if __name__ == "__main__":
    main()
