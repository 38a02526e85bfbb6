"""Measures how the threads of an engine share Python's lock while a crowd is taken in.

    python benchmarks/right_of_way.py [--requests 256] [--rounds 8]

Loop and stage are the engine's own. One thread reads requests as fast as it can, and a stage prepares them; both work
as long for each as they do for a plain one, and let go of the lock in between, as a tokenizer and a socket do. The
device loop launches frames that take 7 ms on a GPU which is only counted, with 0.6 ms of Python each. Printed: when
requests are prepared, counted from the first, and how late the loop's turns are. To measure another version, set
PYTHONPATH to its sources.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

from rhapsode.engine.bell import Bell
from rhapsode.engine.call_stage import CallStage
from rhapsode.engine.loop import Loop
from rhapsode.engine.right_of_way import of_device_loops
from rhapsode.engine.stage import TurnStage, Work
from rhapsode.serve.process.child import SWITCH_S

FRAME_S, TURN_S = 0.007, 0.0006
READ_S, PREPARE_S = 0.00006, 0.00008
READ_TOGETHER = 8
FREE = bytes(8192)
"""Hashing so much lets go of the lock for some microseconds."""


class CountedGpu(TurnStage):
    """Has a frame on its way at all times; notes how long after its end the next one is launched."""

    works_inline = False
    poll_s = 0.0005

    def __init__(self) -> None:
        super().__init__("gpu", Bell())
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


def prepare(number: int) -> int:
    work(PREPARE_S / 2)
    hashlib.sha256(FREE)
    work(PREPARE_S / 2)
    return number


def take_in(requests: int, stage: CallStage) -> list[float]:
    """Returns the seconds until each request is prepared."""
    prepared_s: list[float] = []
    all_are = threading.Event()

    def on_prepared(_: Work) -> None:
        prepared_s.append(time.perf_counter() - started_s)
        if len(prepared_s) == requests:
            all_are.set()

    def read() -> None:
        for number in range(requests):
            of_device_loops.give()
            work(READ_S)
            stage.receive(Work(job, number))
            if number % READ_TOGETHER == 0:
                hashlib.sha256(FREE)

    job: Any = SimpleNamespace(over=False)
    stage.outbox.payload_to = [on_prepared]
    reader = threading.Thread(target=read)
    started_s = time.perf_counter()
    reader.start()
    all_are.wait()
    reader.join()
    return prepared_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_S)
    gpu, stage = CountedGpu(), CallStage("prepare", prepare, workers=1, batch=1)
    loop = Loop("gpu", gpu.bell, [gpu])
    loop.start()
    stage.start()
    rounds_ms, late_ms = [], []
    for _ in range(options.rounds):
        time.sleep(0.1)
        gpu.late_s.clear()
        rounds_ms.append([prepared_s * 1e3 for prepared_s in take_in(options.requests, stage)])
        late_ms += [late_s * 1e3 for late_s in gpu.late_s]
    loop.stop()
    stage.stop()
    for name, index in (("the 32nd", 31), ("half of them", options.requests // 2 - 1), ("all", -1)):
        found = sorted(round_ms[index] for round_ms in rounds_ms)
        print(f"{name} prepared after {statistics.median(found):.0f} ms ({found[0]:.0f} to {found[-1]:.0f})")
    tenths = statistics.quantiles(late_ms, n=10)
    print(
        f"{len(late_ms)} turns, late by {statistics.median(late_ms):.2f} ms (p50), {tenths[-1]:.2f} (p90), "
        f"{max(late_ms):.1f} at most"
    )


if __name__ == "__main__":
    main()
