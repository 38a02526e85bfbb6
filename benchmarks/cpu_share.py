"""CPU time of this process, of the processes it started, and of everything else, by name."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessTime:
    """One process: its parent, its command, and the CPU time it has used."""

    parent: int
    command: str
    cpu_s: float


def processes() -> dict[int, ProcessTime]:
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text(errors="replace").split("\0")[0]
        except OSError:  # it has ended
            continue
        cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        found[int(folder.name)] = ProcessTime(int(fields[1]), command, cpu_s)
    return found


def cpu_by_name() -> Counter[str]:
    """Returns CPU seconds: of this process (`client`), of its descendants by their names, and of all `others`."""
    all_of_them = processes()
    used: Counter[str] = Counter()
    for pid, process in all_of_them.items():
        used[_name(pid, process.command) if _is_ours(pid, all_of_them) else "others"] += process.cpu_s
    return used


@contextmanager
def counted_cpu(shares: dict[str, float]) -> Iterator[None]:
    """Adds to `shares` how many cores each name has kept busy in this block; a name below 0.01 is left out."""
    before, started_s = cpu_by_name(), time.perf_counter()
    yield
    wall_s = time.perf_counter() - started_s
    for name, cpu_s in cpu_by_name().items():
        if (share := (cpu_s - before[name]) / wall_s) >= 0.01:
            shares[name] = round(share, 3)


def _is_ours(pid: int, all_of_them: dict[int, ProcessTime]) -> bool:
    while pid in all_of_them:
        if pid == os.getpid():
            return True
        pid = all_of_them[pid].parent
    return False


def _name(pid: int, command: str) -> str:
    if pid == os.getpid():
        return "client"
    if found := re.search(r"ServeReplica:rhapsode:(?:model-)?([\w-]+)", command):  # after a dot: what it is doing
        return "edge" if found[1] == "edge" else f"replicas of {found[1]}"
    return "ray" if "ray" in command or "gcs_server" in command else Path(command).name
