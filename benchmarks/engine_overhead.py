"""What the engine itself costs per frame: wall time of a busy loop less the time inside the model.

    python benchmarks/engine_overhead.py [--listeners 32] [--characters 400]

The dummy family emits one frame per character for every listener at once; whatever its talker and codec take is
measured around each call and subtracted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from rhapsode.config import resolve
from rhapsode.engine import Engine
from rhapsode.models.registry import find
from rhapsode.types import SpeechRequest


class Stopwatch:
    """Adds up the time spent inside wrapped calls."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self.calls = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            started_s = time.perf_counter()
            try:
                return function(*args)
            finally:
                self.total_s += time.perf_counter() - started_s
                self.calls += 1

        return timed


def run(engine: Engine, listeners: int, characters: int) -> tuple[float, float, int]:
    """Milliseconds per frame in all and in the model, and how many frames there were."""
    step, model = Stopwatch(), Stopwatch()
    talker, codec = engine.pipeline.workers["talk"], engine.pipeline.workers["vocode"]
    originals = {(talker, "step"): talker.step, (talker, "prefill"): talker.prefill, (codec, "decode"): codec.decode}
    for (worker, name), function in originals.items():
        timed = model.around(function)
        setattr(worker, name, step.around(timed) if name == "step" else timed)
    started_s = time.perf_counter()
    speeches = [engine.submit(SpeechRequest("x" * characters, seed=i)) for i in range(listeners)]
    for speech in speeches:
        for _ in speech:
            pass
    wall_s = time.perf_counter() - started_s
    for (worker, name), function in originals.items():
        setattr(worker, name, function)
    return wall_s / step.calls * 1e3, model.total_s / step.calls * 1e3, step.calls


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--listeners", type=int, default=32)
    arguments.add_argument("--characters", type=int, default=400)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    limits = {"max_concurrency": given.listeners, "max_positions": given.characters * 3 + 64}
    deployment = resolve(env={}, flags={"model": "dummy", "device": "cpu", "limits": limits})
    with Engine(find("dummy").spec, deployment) as engine:
        run(engine, given.listeners, given.characters)  # warm up
        rounds = [run(engine, given.listeners, given.characters) for _ in range(given.rounds)]
    overheads = [wall - model for wall, model, _ in rounds]
    print(f"{given.listeners} listeners, {rounds[0][2]} frames each round, {given.rounds} rounds")
    print(f"whole frame     {statistics.median(w for w, _, _ in rounds):.3f} ms")
    print(f"inside model    {statistics.median(m for _, m, _ in rounds):.3f} ms")
    print(f"engine overhead {statistics.median(overheads):.3f} ms (worst round {max(overheads):.3f} ms)")


if __name__ == "__main__":
    main()
