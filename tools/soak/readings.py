"""What a server process holds at one moment, and how much more it may hold at the end than at the start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

MIB = 2**20
GAUGES = {
    "slots": "rhapsode_slots_in_use",
    "pages": "rhapsode_pages_in_use",
    "queue": "rhapsode_queue_depth",
    "requests": "rhapsode_requests_in_flight",
    "sockets": "rhapsode_open_websockets",
    "tasks": "rhapsode_tasks",
}
MEMORY, LATE_MEMORY = "memory_mib", "late_memory"
LATE_MIB, LEAST_LATE = 20.0, 9
"""What memory at rest may still grow by after the middle of a soak, and how many readings it takes to tell: with fewer,
one odd reading decides the median of a third."""
TOLERANCES = {
    MEMORY: 32.0,  # a model that is loaded again lies elsewhere in the heap
    "descriptors": 4,  # connections of the soak itself, kept open
    "threads": 4,  # threads of pools that grow on demand up to a limit
    "processes": 0,
    "files": 0,
    "slots": 0,
    "pages": 0,
    "queue": 0,
    "requests": 0,
    "sockets": 0,
    "tasks": 2,  # connections of the soak itself
}

Readings = Mapping[str, float]


@dataclass(frozen=True)
class Check:
    """One line of the report: a quantity at the start and at the end, and whether the difference is allowed."""

    name: str
    before: float
    after: float
    allowed: float

    @property
    def passed(self) -> bool:
        return self.after <= self.before + self.allowed


def take(pid: int, voices: Path, gauges: Mapping[str, float]) -> Readings:
    """Returns what the process holds, by the names of `TOLERANCES`."""
    process = Path("/proc") / str(pid)
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
    return {
        MEMORY: int(status["VmRSS"].split()[0]) * 1024 / MIB,
        "descriptors": len(list((process / "fd").iterdir())),
        "threads": int(status["Threads"]),
        "processes": len(children(pid)),
        "files": len([path for path in voices.iterdir() if path.name != ".lock"]) if voices.is_dir() else 0,
        **{name: gauges.get(metric, 0.0) for name, metric in GAUGES.items()},
    }


def children(pid: int) -> list[int]:
    """Returns the processes that a process has started."""
    tasks = (Path("/proc") / str(pid) / "task").glob("*/children")
    return [int(child) for path in tasks for child in path.read_text().split()]


def compare(series: Sequence[Readings]) -> list[Check]:
    """Compares the first readings with the last ones.

    Memory at rest differs from round to round, since the heap is never divided in the same way twice. So the median of
    the last third is compared with that of the first, and with that of the middle, when all caches are full. Of
    everything else the first and the last count decide.
    """
    third = max(1, len(series) // 3)
    checks = [
        Check(name, _middle(series[:third], name), _middle(series[-third:], name), allowed)
        if name == MEMORY
        else Check(name, series[0][name], series[-1][name], allowed)
        for name, allowed in TOLERANCES.items()
    ]
    if len(series) >= LEAST_LATE:
        before, after = _middle(series[third:-third], MEMORY), _middle(series[-third:], MEMORY)
        checks.append(Check(LATE_MEMORY, before, after, LATE_MIB))
    return checks


def _middle(some: Sequence[Readings], name: str) -> float:
    return median(reading[name] for reading in some)


def is_at_rest(gauges: Mapping[str, float]) -> bool:
    """Tells whether no request, slot, page or socket is in use."""
    return not any(gauges.get(GAUGES[name], 0) for name in ("slots", "pages", "queue", "requests", "sockets"))
