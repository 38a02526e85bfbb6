"""How much memory there is, how much a process takes, and how much a model that was never loaded will take."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

PROGRAM_BYTES = 400 * 2**20
"""What a process takes beside its model: Python, torch, the server."""
LOADED = 1.5
"""How many times the bytes of its weights' files a model takes: buffers, keys and values, another number format."""
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".onnx")


def available_bytes(system: Path = Path("/")) -> int | None:
    """Returns how much memory programs can still take, within the limit of this container; None if that is unknown."""
    found = [_of_machine(system / "proc/meminfo"), _of_container(system / "sys/fs/cgroup")]
    known = [size for size in found if size is not None]
    return min(known, default=None)


def resident_bytes(process: Path = Path("/proc/self")) -> int:
    """Returns the memory of a process and of those that it has started, as the engine's; 0 if that is unknown."""
    own = _kilobytes(process / "status", "VmRSS") or 0
    return own + sum(resident_bytes(process.parent / str(child)) for child in _children(process))


def expected_bytes(model: Path | None) -> int:
    """Returns an estimate of what a model will take, from the files of its checkpoint."""
    files = [] if model is None else [model] if model.is_file() else list(model.rglob("*"))
    weights = sum(file.stat().st_size for file in files if file.suffix in WEIGHTS and file.is_file())
    return PROGRAM_BYTES + round(LOADED * weights)


def _children(process: Path) -> set[int]:
    """Returns the processes that any thread of a process has started."""
    found: set[int] = set()
    with suppress(OSError):  # it has ended, or the kernel does not tell
        for thread in (process / "task").iterdir():
            with suppress(OSError):
                found.update(map(int, (thread / "children").read_text().split()))
    return found


def _of_machine(meminfo: Path) -> int | None:
    return _kilobytes(meminfo, "MemAvailable")


def _of_container(cgroup: Path) -> int | None:
    """Returns what a container may still take. What the kernel keeps of files, it gives back when asked."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        files = re.search(r"^inactive_file (\d+)$", (cgroup / "memory.stat").read_text(), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(0, int(limit) - used + (int(files[1]) if files else 0))


def _kilobytes(file: Path, name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB$", file.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
