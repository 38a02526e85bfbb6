"""A server that a benchmark starts, reads and ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_S = 200.0
STOP_S = 2.0


@dataclass
class Served:
    """A server that is ready."""

    url: str
    ready_s: float
    process: subprocess.Popen[bytes]
    log: Path

    def metric(self, name: str, together: Callable[[Iterable[float]], float] = sum) -> float:
        """Returns a metric; the values of all its labels together."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as response:
            found = re.findall(rf"^rhapsode_{name}(?:{{\S*}})? (\S+)", response.read().decode(), re.MULTILINE)
        return together(map(float, found)) if found else 0.0

    def start_lines(self) -> list[str]:
        """Returns what the server says of its start: where the time went."""
        about = (" start-up ", " model ready ", " kernels ", " worker-", " plan: ", " imports: ", "compiling processes")
        return [line for line in self.log.read_text("utf-8").splitlines() if any(word in line for word in about)]

    def last_lines(self) -> str:
        """Returns the end of the log, without the lines of single requests."""
        lines = [line for line in self.log.read_text("utf-8").splitlines() if " request request_id=" not in line]
        return "\n".join(lines[-12:])


@contextmanager
def started(
    deployment: dict[str, Any],
    folder: Path,
    log: Path,
    cores: int | None = None,
    module: str = "rhapsode",
    kernels: Path | None = None,
) -> Iterator[Served]:
    """Starts a server and waits until it is ready; ends it.

    Its kernels are kept in the folder, for the next one, unless `kernels` says where they are. With `cores` it gets so
    many CPU cores, and no GPU. `module` is run instead of our own command.
    """
    file = folder / "deployment.yaml"
    file.write_text(json.dumps(deployment), "utf-8")  # YAML, too
    command = [sys.executable, "-m", module, "serve", "--config", str(file)]
    env = {**os.environ, "TRITON_CACHE_DIR": str(kernels or folder / "kernels")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is not compiled anew at each start
    if cores is not None:
        chosen = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
        command, env["CUDA_VISIBLE_DEVICES"] = ["taskset", "-c", chosen, *command], ""
    begun_s = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
        try:
            yield _wait(process, log, begun_s)
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, begun_s: float) -> Served:
    while "model ready" not in (text := log.read_text("utf-8")):
        if process.poll() is not None or time.monotonic() - begun_s > START_S:
            raise ChildProcessError(f"the server did not start:\n{text[-3000:]}")
        time.sleep(0.05)
    ready_s = time.monotonic() - begun_s
    found = re.search(r"http://\S+?:\d+", text)
    assert found, text
    return Served(found[0], ready_s, process, log)
