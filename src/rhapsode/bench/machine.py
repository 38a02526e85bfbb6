"""Describes the machine of a measurement: hardware, versions, git revision."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "rhapsode",
    "torch",
    "triton",
    "numpy",
    "tokenizers",
    "av",
    "aiohttp",
    "jiwer",
    "faster-whisper",
    "ctranslate2",
    "hibari-tts",
)


def machine() -> dict[str, Any]:
    """Returns the hardware of this computer."""
    return {
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_bytes": _memory_bytes(),
        "gpus": _gpus(),
    }


def versions() -> dict[str, str]:
    """Returns the versions of Python and of every package that can influence a measurement."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if "rhapsode" not in found:  # not installed: it runs from its source
        from rhapsode import __version__

        found["rhapsode"] = __version__
    return found


def revision(start: Path = Path(__file__)) -> str | None:
    """Returns the git commit of this code, read from the repository's files; without a repository, `GITHUB_SHA`."""
    for folder in start.resolve().parents:
        if (folder / ".git").exists():
            return _head(folder / ".git") or os.environ.get("GITHUB_SHA")
    return os.environ.get("GITHUB_SHA")


def _head(git: Path) -> str | None:
    try:
        if git.is_file():  # in a worktree it is a file with the folder's path
            git = (git.parent / git.read_text("utf-8").removeprefix("gitdir:").strip()).resolve()
        head = (git / "HEAD").read_text("utf-8").strip()
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        common = git / "commondir"
        root = (git / common.read_text("utf-8").strip()).resolve() if common.is_file() else git
        for place in (git, root):
            if (place / name).is_file():
                return (place / name).read_text("utf-8").strip()
        packed = (root / "packed-refs").read_text("utf-8")
    except OSError:
        return None
    found = re.search(rf"^([0-9a-f]{{40,64}}) {re.escape(name)}$", packed, re.MULTILINE)
    return found[1] if found else None


def _cpu() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


def _gpus() -> list[str]:
    """Returns the names of the GPUs if torch is loaded. A client that measures a server does not load it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
