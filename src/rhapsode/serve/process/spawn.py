"""Starts the process of an engine, or of one model of several. This module imports little, so that the process can
start before other imports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from rhapsode.device.early_start import has_gpu

CHILD = "rhapsode.serve.process.child"


@dataclass(frozen=True)
class SpawnedProcess:
    """A process that waits for its first message, and the server's end of the connection to it."""

    process: subprocess.Popen[bytes]
    end: socket.socket

    def kill(self) -> None:
        """Ends a process that is not needed."""
        self.process.kill()
        self.process.wait()
        self.end.close()


def spawn(child: str = CHILD, env: Mapping[str, str] | None = None) -> SpawnedProcess:
    """Starts a process that runs this module, with the number of its end of the connection as argument, and with these
    variables beside those of this process."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", child, str(theirs.fileno())]
        return SpawnedProcess(
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), env={**os.environ, **(env or {})}
            ),
            ours,
        )


def spawn_early(device: str | None) -> SpawnedProcess | None:
    """Starts an engine's process early if there is a GPU: a server then probably needs it, and its imports take
    seconds."""
    return spawn() if device != "cpu" and has_gpu() else None
