"""Measures how late a device loop's turns are while other threads take in a crowd, and how long that takes.

    python benchmarks/right_of_way.py [--requests 256] [--rounds 8]

The loop is the engine's own; its stage launches frames that take 7 ms on a GPU which is only counted, with 0.6 ms of
Python each. Three threads work as long for each request as those that read, prepare and answer do. To measure another
version, set PYTHONPATH to its sources.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from typing import Any

from rhapsode.engine.loop import Loop
from rhapsode.engine.right_of_way import of_device_loops
from rhapsode.engine.stage import TurnStage
from rhapsode.serve.process.child import SWITCH_S

FRAME_S, TURN_S = 0.007, 0.0006
WORK_S = (0.00006, 0.0001, 0.00008)
"""Of each thread, for one request."""


class CountedGpu(TurnStage):
    """Has a frame on its way at all times; notes how long after its end the next one is launched."""

    works_inline = False
    poll_s = 0.0005

    def __init__(self) -> None:
        super().__init__("gpu")
        self.ends_s, self.late_s = time.perf_counter() + FRAME_S, list[float]()

    def turn(self) -> bool:
        late_s = time.perf_counter() - self.ends_s
        if late_s < 0:
            return False
        self.late_s.append(late_s)
        work(TURN_S)
        self.ends_s = time.perf_counter() + FRAME_S
        return True

    def jobs(self) -> list[Any]:
        return []


def work(seconds: float) -> None:
    """Keeps a core, and Python's lock as far as others leave it, for so long."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def take_in(requests: int) -> float:
    """Returns the seconds until all threads have done their work of so many requests."""

    def run(seconds: float) -> None:
        for _ in range(requests):
            of_device_loops.give()
            work(seconds)

    threads = [threading.Thread(target=run, args=(seconds,)) for seconds in WORK_S]
    started_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_S)
    gpu = CountedGpu()
    loop = Loop("gpu", [gpu])
    loop.start()
    took_ms, late_ms = [], []
    for _ in range(options.rounds):
        time.sleep(0.1)
        gpu.late_s.clear()
        took_ms.append(take_in(options.requests) * 1e3)
        late_ms += [late_s * 1e3 for late_s in gpu.late_s]
    loop.stop()
    tenths = statistics.quantiles(late_ms, n=10)
    print(
        f"{options.requests} requests in {statistics.median(took_ms):.0f} ms ({min(took_ms):.0f} to {max(took_ms):.0f})"
        f"; {len(late_ms)} turns, late by {statistics.median(late_ms):.2f} ms (p50), {tenths[-1]:.2f} (p90), "
        f"{max(late_ms):.1f} at most"
    )


if __name__ == "__main__":
    main()
