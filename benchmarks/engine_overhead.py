"""Measures what the engine itself costs per frame: the wall time of a busy loop less the time inside the model.

    python benchmarks/engine_overhead.py [--listeners 32] [--characters 400]

The dummy family emits one frame per character for all listeners at once. Without graphs talker and codec share one
loop, so the time of their sections can be subtracted from the wall time.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from rhapsode.bench.engine.clock import clock_for
from rhapsode.bench.engine.section_times import SectionTimes
from rhapsode.config import resolve
from rhapsode.device.sections import recording
from rhapsode.engine import Engine
from rhapsode.models.registry import find
from rhapsode.types import SpeechRequest


def run(engine: Engine, listeners: int, characters: int) -> tuple[float, float, int]:
    """Returns milliseconds per frame in all and inside the model, and the number of frames."""
    times = SectionTimes(clock_for(torch.device("cpu")))
    started_s = time.perf_counter()
    with recording(times):
        speeches = [engine.submit(SpeechRequest("x" * characters, seed=i)) for i in range(listeners)]
        for speech in speeches:
            for _ in speech:
                pass
    wall_s = time.perf_counter() - started_s
    times.settle()
    frames = times.runs["talker"]
    return wall_s / frames * 1e3, sum(times.seconds.values()) / frames * 1e3, frames


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--listeners", type=int, default=32)
    arguments.add_argument("--characters", type=int, default=400)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    limits = {"max_concurrency": given.listeners, "max_positions": given.characters * 3 + 64}
    flags = {"model": "dummy", "device": "cpu", "graphs": False, "limits": limits}
    with Engine(find("dummy").spec, resolve(env={}, flags=flags)) as engine:
        run(engine, given.listeners, given.characters)  # warm-up
        rounds = [run(engine, given.listeners, given.characters) for _ in range(given.rounds)]
    overheads = [wall - model for wall, model, _ in rounds]
    print(f"{given.listeners} listeners, {rounds[0][2]} frames each round, {given.rounds} rounds")
    print(f"whole frame     {statistics.median(w for w, _, _ in rounds):.3f} ms")
    print(f"inside model    {statistics.median(m for _, m, _ in rounds):.3f} ms")
    print(f"engine overhead {statistics.median(overheads):.3f} ms (worst round {max(overheads):.3f} ms)")


if __name__ == "__main__":
    main()
