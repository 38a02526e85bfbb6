"""`rhapsode` as a user runs it: a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path


def environment(**extra: str) -> dict[str, str]:
    """This environment without what would configure Rhapsode, and with `extra`; folders to import from are added."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RHAPSODE_")}
    if "PYTHONPATH" in extra and "PYTHONPATH" in kept:
        extra["PYTHONPATH"] = os.pathsep.join((extra["PYTHONPATH"], kept["PYTHONPATH"]))
    return {**kept, "NO_COLOR": "1", "COLUMNS": "120", **extra}


def rhapsode(
    *arguments: str, cwd: Path, stdin: bytes = b"", timeout_s: float = 60, **extra_env: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rhapsode", *arguments],
        cwd=cwd,
        input=stdin,
        env=environment(**extra_env),
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )


def python(code: str, cwd: Path, **extra_env: str) -> str:
    """What a fresh interpreter prints for this code."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=cwd, env=environment(**extra_env), capture_output=True, check=True, timeout=60)
    return done.stdout.decode()
