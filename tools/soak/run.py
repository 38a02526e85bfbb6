"""Takes one server through a soak: rounds of load, and rest after each, for readings and for unloading the model."""

import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from tools.soak import readings
from tools.soak.cases import make_cases
from tools.soak.crowd import Crowd
from tools.soak.ledger import Ledger, Violation
from tools.soak.served import Served, serving
from tools.soak.target import Target

ROUND_S, SHORT_ROUND_S = 60.0, 4.0
UPLOADS_AT_ONCE = 32  # as many as the server decodes and lets wait
IDLE_UNLOAD_S = 4.0


@dataclass(frozen=True)
class Subject:
    """A model to serve, with as many clients and requests as it can bear on two cores."""

    model: str
    slots: int
    clients: int
    cases: int
    max_request_s: float

    def deployment(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "device": "cpu",
            "threads": 1,
            "deterministic": True,
            "limits": {
                "max_concurrency": self.slots,
                "max_queue": 64,
                "max_positions": 2048,
                "max_unread_s": 5.0,
                "unread_timeout_s": 8.0,
            },
            "server": {
                "port": 0,
                "voices": "voices",
                "debug": self.model == "dummy",  # one server with asyncio's own event loop, one with uvloop
                "idle_unload_s": IDLE_UNLOAD_S,
                "max_request_s": self.max_request_s,
                "receive_timeout_s": 8.0,
                "reference_cache_bytes": 2**20,  # a full cache would look like a leak
                "socket": {"idle_s": 20.0, "config_s": 5.0},
            },
        }


SUBJECTS = {
    "dummy": Subject("dummy", slots=16, clients=12, cases=18, max_request_s=120.0),
    "rhapsode-nano": Subject("rhapsode-nano", slots=3, clients=4, cases=5, max_request_s=600.0),
}


@dataclass
class Result:
    """What a soak of one server found."""

    model: str
    ledger: Ledger = field(default_factory=Ledger)
    checks: list[readings.Check] = field(default_factory=list)
    series: list[readings.Readings] = field(default_factory=list)
    """After each round, with nothing in flight and no model loaded."""
    health_ms: dict[str, float] = field(default_factory=dict)
    responses: dict[str, int] = field(default_factory=dict)
    model_loads: int = 0
    clock_jumps: int = 0
    log_errors: list[str] = field(default_factory=list)
    longest_callback_s: float = 0.0

    @property
    def failures(self) -> list[str]:
        """Returns every reason why this soak did not pass."""
        found = [
            f"{c.name}: {c.before:g} at the start, {c.after:g} at the end, +{c.allowed:g} allowed"
            for c in self.checks
            if not c.passed
        ]
        found += self.ledger.violations
        found += [f"log: {line}" for line in self.log_errors]
        found += self._unexpected_responses()
        if not self.checks:
            found.append("the soak did not reach its end")
        return found

    def _unexpected_responses(self) -> list[str]:
        """Returns the 5xx that the server counted and no client had asked for."""
        asked_for = sum(count for (_, ending), count in self.ledger.endings.items() if ending == "refused 503")
        found = {status: count for status, count in self.responses.items() if status.startswith("5")}
        found["503"] = found.get("503", 0) - asked_for
        return [f"{count} unexpected responses with status {status}" for status, count in found.items() if count > 0]


async def soak(subject: Subject, folder: Path, seconds: float, seed: int, faults: Sequence[str]) -> Result:
    """Drives one server for about so long, and returns what was found."""
    result = Result(subject.model)
    async with serving(folder, subject.deployment(), faults) as served:
        try:
            await _drive(subject, served, seconds, seed, result)
        except (Violation, aiohttp.ClientError, OSError) as error:
            result.ledger.violate(f"{type(error).__name__}: {error}; exit status {served.process.returncode}")
        result.clock_jumps, result.log_errors = served.clock_jumps, served.errors
    return result


def _print_progress(result: Result) -> None:
    memory_mib, count = result.series[-1]["memory_mib"], result.ledger.endings.total()
    print(
        f"{result.model}: round {len(result.series)}, {memory_mib:.0f} MiB at rest, {count} actions, "
        f"{result.ledger.violation_count} violations",
        file=sys.stderr,
        flush=True,
    )


async def _drive(subject: Subject, served: Served, seconds: float, seed: int, result: Result) -> None:
    at_start = await served.responses()  # with /health, which was 503 until the model was there
    cases = await make_cases(served, subject.cases)
    crowd = Crowd(Target(served, cases, result.ledger, Random(seed), itertools.count()), subject.clients, seed)
    round_s = ROUND_S if seconds > 5 * ROUND_S else SHORT_ROUND_S
    warm_up = 2 if seconds > 5 * ROUND_S else 1
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s or len(result.series) < warm_up + 1:
        if len(result.series) < warm_up:
            await crowd.burst(UPLOADS_AT_ONCE)
        await crowd.round(round_s)
        await served.rest()
        if not await served.unloaded(IDLE_UNLOAD_S + 30):
            raise Violation("an idle server did not unload its model")
        result.series.append(await served.take_readings())
        if len(result.series) > warm_up:
            result.checks = readings.compare(result.series[warm_up - 1 :])
        _print_progress(result)
    gauges = await served.gauges()
    result.health_ms = crowd.health_ms()
    result.responses = {status: n - at_start.get(status, 0) for status, n in (await served.responses()).items()}
    result.model_loads = int(gauges["rhapsode_model_loads_total"])
    result.longest_callback_s = await served.longest_callback_s()
    children = readings.children(served.pid)
    if (status := await served.stop()) != 0:
        raise Violation(f"the server ended with {status} after SIGTERM")
    if left := [pid for pid in children if (Path("/proc") / str(pid)).exists()]:
        raise Violation(f"{len(left)} processes that the server had started outlived it")
