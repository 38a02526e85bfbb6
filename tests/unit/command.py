"""`rhapsode` as a user runs it: a process of its own, in a folder of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

from forked import ForkedProcess, can_fork


def environment(**extra: str) -> dict[str, str]:
    """This environment without what would configure Rhapsode, and with `extra`; folders to import from are added."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RHAPSODE_")}
    if "PYTHONPATH" in extra and "PYTHONPATH" in kept:
        extra["PYTHONPATH"] = os.pathsep.join((extra["PYTHONPATH"], kept["PYTHONPATH"]))
    return {**kept, "NO_COLOR": "1", "COLUMNS": "120", **extra}


def rhapsode(
    *arguments: str, cwd: Path, stdin: bytes = b"", timeout_s: float = 60, **extra_env: str
) -> subprocess.CompletedProcess[bytes]:
    command, env = ["rhapsode", *arguments], environment(**extra_env)
    if can_fork(extra_env):
        return _forked(command, cwd, stdin, timeout_s, env)
    command = [sys.executable, "-m", *command]
    given = {"cwd": cwd, "input": stdin, "env": env, "timeout": timeout_s}
    return subprocess.run(command, **given, capture_output=True, check=False)


def _forked(
    command: list[str], cwd: Path, stdin: bytes, timeout_s: float, env: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        process = ForkedProcess(command, cwd, env, [file.fileno() for file in (given, output, errors)])
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            raise
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(command, code, output.read(), errors.read())


def python(code: str, cwd: Path, **extra_env: str) -> str:
    """What a fresh interpreter prints for this code."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=cwd, env=environment(**extra_env), capture_output=True, check=True, timeout=60)
    return done.stdout.decode()
