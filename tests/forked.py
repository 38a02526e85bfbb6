"""Starts Python programs quickly: forks them from a process that has imported the large libraries, but nothing of ours.

A program gets a process, an environment and a folder of its own; only the seconds of `import torch` are shared.
"""

from __future__ import annotations

import array
import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

IMPORTED = (
    "torch", "fastapi", "pydantic", "uvicorn", "typer", "rich.console", "yaml", "av", "soxr", "tokenizers", "uvloop",
    "safetensors.torch", "httptools", "websockets", "httpcore", "prometheus_client", "opentelemetry.trace",
)  # fmt: skip
READ_WHEN_IMPORTED = ("PYTHON", "OMP_", "TORCH", "MKL", "LD_", "PATH")
"""Variables that begin so cannot be changed for a program that is forked."""


class ForkedProcess:
    """A program, with what tests need of `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], streams: Sequence[int]) -> None:
        """Runs `python -m ARGUMENTS...`; `streams` are the files of its standard input, output and errors."""
        asked, self._answers = socket.socketpair()
        wish = json.dumps({"arguments": [*arguments], "cwd": str(cwd), "env": dict(env)}).encode()
        with asked:
            socket.send_fds(_origin(), [len(wish).to_bytes(4, "little")], [*streams, asked.fileno()])
            _origin().sendall(wish)
        self.pid = int.from_bytes(self._receive(None), "little")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, or `None` while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code; minus a signal's number, if that ended it."""
        if self.returncode is None:
            self.returncode = int.from_bytes(self._receive(timeout), "little", signed=True)
            self._answers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _receive(self, timeout: float | None) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            if not selector.select(timeout):
                raise subprocess.TimeoutExpired("a forked program", timeout or 0)
        received = self._answers.recv(8)
        assert len(received) == 8, "the process that forks has ended"
        return received


Program = ForkedProcess | subprocess.Popen[bytes]


def start(arguments: Sequence[str], cwd: Path, env: Mapping[str, str], streams: Sequence[int]) -> Program:
    """Runs `python -m ARGUMENTS...`, forked where the system can."""
    if can_fork({}):
        return ForkedProcess(arguments, cwd, env, streams)
    given, output, errors = streams
    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(command, cwd=cwd, env=env, stdin=given, stdout=output, stderr=errors)


def can_fork(changed: Mapping[str, str]) -> bool:
    """Whether a program can be forked whose environment differs from this one by these variables."""
    return sys.platform == "linux" and not any(name.startswith(READ_WHEN_IMPORTED) for name in changed)


@cache
def _origin() -> socket.socket:
    """Starts the process that forks; returns the connection to it. It ends with this one."""
    here, there = socket.socketpair()
    with there:
        command = [sys.executable, __file__, str(there.fileno())]
        process = subprocess.Popen(command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(process.wait)
    atexit.register(here.close)
    return here


# --- in the process that forks ---


def _serve(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Forks a process for every wish. Returns in these processes alone, with the wish and its files."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by descriptor
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not control:
                selector.unregister(key.fd)
                pid, asked = running.pop(key.fd)
                os.close(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with asked:
                    asked.send(code.to_bytes(8, "little", signed=True))
                continue
            header, files = _receive(control)
            if not header:
                sys.exit()
            wish = control.recv(int.from_bytes(header, "little"), socket.MSG_WAITALL)
            if not (pid := os.fork()):
                control.close()
                os.close(files.pop())
                return json.loads(wish), files
            for file in files[:3]:
                os.close(file)
            asked = socket.socket(fileno=files[3])
            asked.send(pid.to_bytes(8, "little"))
            descriptor = os.pidfd_open(pid)
            running[descriptor] = pid, asked
            selector.register(descriptor, selectors.EVENT_READ)


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    header, ancillary, *_ = control.recvmsg(4, socket.CMSG_SPACE(4 * array.array("i").itemsize))
    files = array.array("i")
    for _, _, data in ancillary:
        files.frombytes(data[: len(data) - len(data) % files.itemsize])
    return header, list(files)


def _become(wish: dict[str, Any], files: list[int]) -> list[str]:
    """Makes this process the one that was wished for; returns the arguments of `python -m`."""
    import random

    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    random.seed()
    os.environ.clear()
    os.environ.update(wish["env"])
    os.chdir(wish["cwd"])
    added = [folder for folder in wish["env"].get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:] = [wish["cwd"], *dict.fromkeys([*added, *sys.path[1:]])]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return list(wish["arguments"])


class Ending:
    """Ends a program whose exit code is known after its last exit handler: to free what all libraries made takes half
    a second, in which nothing of ours runs."""

    def __init__(self) -> None:
        self.code: int | None = None
        atexit.register(self._end)  # the first one registered is called last

    def _end(self) -> None:
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


if __name__ == "__main__":
    import gc
    import importlib
    import runpy

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for library in IMPORTED:
        importlib.import_module(library)
    gc.freeze()  # what is imported is garbage of no program
    arguments = _become(*_serve(socket.socket(fileno=int(sys.argv[1]))))
    sys.argv[:] = arguments
    ending = Ending()
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        ending.code = 0
    except SystemExit as end:
        ending.code = end.code or 0 if isinstance(end.code, int | None) else None
        raise
