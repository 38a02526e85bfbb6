"""Measures the targets of docs/results.md over HTTP, on servers that this script starts, and prints the level reached.

    python benchmarks/targets.py [--shape qwen3-tts-1.7b] [--slots 512] [--out FOLDER] [--quick]

The first server starts with an empty kernel cache, the second with a full one; the second takes all load. Bursts come
first and the first of each size counts as well: a listener who comes early is a listener. Weights are random, speech
has 52 frames (4.2 s). `--quick` is a rehearsal with little load, for a computer without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rhapsode.bench.engine.subject import write_shape

FRAMES = 52
LEVELS = ("must", "strong", "moonshot")
START_S = 300.0
SLOW_MS = 50.0
"""Faster turns are not counted by a server: none slower than this is all that is known then."""


@dataclass(frozen=True)
class Target:
    """A figure and what is asked of it at each level."""

    name: str
    asked: tuple[tuple[float, ...], ...]
    unit: str
    more_is_better: bool = False

    def level(self, found: Sequence[float | None]) -> str:
        """Returns the highest level that all numbers of the figure reach."""
        reached = "missed"
        for name, asked in zip(LEVELS, self.asked, strict=True):
            if any(value is None for value in found):
                return "not measured"
            signed = [(-a, -b) if self.more_is_better else (a, b) for a, b in zip(found, asked, strict=True)]
            if any(value > most for value, most in signed):
                break
            reached = name
        return reached


TARGETS = {
    "alone": Target("first audio of one listener, p50 / p99", ((9, 12), (8, 10), (6, 8)), "ms"),
    "open": Target("first audio at 20 / 40 requests a second, p95", ((20, 25), (15, 18), (10, 12)), "ms"),
    "burst": Target(
        "first audio of 32 / 256 / 512 at once, p99", ((60, 300, 600), (45, 220, 450), (35, 150, 300)), "ms"
    ),
    "rtf": Target("real-time factor of one listener", ((0.029,), (0.026,), (0.022,)), ""),
    "throughput": Target("speech per second, best load", ((1600,), (2000,), (2500,)), "s", more_is_better=True),
    "listeners": Target("listeners without an underrun", ((512,), (768,), (1024,)), "", more_is_better=True),
    "turn": Target("longest turn of the loop after the start", ((50,), (30,), (20,)), "ms"),
    "start": Target("start with an empty / a full kernel cache", ((40, 8), (30, 6), (15, 4)), "s"),
}


@dataclass
class Findings:
    runs: list[dict[str, Any]] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)
    turns_ms: list[float] = field(default_factory=list)
    slow_turns: float = 0.0

    def all_of(self, load: str, level: float, value: Callable[[dict[str, Any]], float]) -> float | None:
        """Returns the worst value of the runs of one load, the first burst of a size included."""
        found = [value(run) for run in self.runs if run["load"].endswith(load) and run["level"] == level]
        return max(found, default=None)

    def figures(self) -> dict[str, list[float | None]]:
        def first(percentile: str) -> Callable[[dict[str, Any]], float]:
            return lambda run: run["summary"]["first_playable_ms"][percentile]

        calm = [run["level"] for run in self.runs if not run["underruns"] and not run["errors"]]
        loud = [run["level"] for run in self.runs if run["underruns"] or run["errors"]]
        alone = [run for run in self.runs if run["load"] == "closed" and run["level"] == 1]
        return {
            "alone": [self.all_of("closed", 1, first("p50")), self.all_of("closed", 1, first("p99"))],
            "open": [self.all_of("open", rate, first("p95")) for rate in (20, 40)],
            "burst": [self.all_of("burst", size, first("p99")) for size in (32, 256, 512)],
            "rtf": [max((run["summary"]["rtf"]["p50"] for run in alone), default=None)],
            "throughput": [max((run["audio_s_per_s"] for run in self.runs), default=None)],
            "listeners": [max((n for n in calm if n < min(loud, default=1e9)), default=None)],
            "turn": [max(self.turns_ms, default=None if self.slow_turns else SLOW_MS)],
            "start": self.starts_s if len(self.starts_s) == 2 else [None, None],
        }


@dataclass
class Served:
    url: str
    ready_s: float
    log: Path

    def slow_turns(self) -> float:
        with urllib.request.urlopen(f"{self.url}/metrics") as response:
            found = re.findall(r"^rhapsode_slow_turns_total\S* (\S+)", response.read().decode(), re.MULTILINE)
        return sum(map(float, found))

    def turns_ms(self) -> list[float]:
        return [float(ms) for ms in re.findall(r"a turn of stage '\w+' took (\d+) ms", self.log.read_text())]


@contextmanager
def served(deployment: dict[str, Any], folder: Path) -> Iterator[Served]:
    """Starts a server and waits until it is ready; ends it."""
    file, log = folder / "deployment.yaml", folder / "log"
    file.write_text(json.dumps(deployment))  # YAML, too
    command = [sys.executable, "-m", "rhapsode", "serve", "--config", str(file)]
    env = {**os.environ, "TRITON_CACHE_DIR": str(folder / "kernels")}
    begun_s = time.monotonic()
    with log.open("wb") as out, subprocess.Popen(command, env=env, stdout=out, stderr=out) as process:
        try:
            while "model ready" not in log.read_text():
                if process.poll() is not None or time.monotonic() - begun_s > START_S:
                    raise SystemExit(f"the server did not start:\n{log.read_text()[-3000:]}")
                time.sleep(0.05)
            found = re.search(r"http://\S+?:\d+", log.read_text())
            assert found, log.read_text()
            yield Served(found[0], time.monotonic() - begun_s, log)
        finally:
            process.terminate()


def load(server: Served, out: Path, name: str, *flags: str) -> list[dict[str, Any]]:
    """Applies one load; returns its runs."""
    report = out / f"{name}.json"
    command = [sys.executable, "-m", "rhapsode", "bench", "serve", server.url, "--output", str(report), *flags]
    subprocess.run([*command, "--body", f"max_new_tokens={FRAMES}"], check=True)
    return json.loads(report.read_text())["runs"]


def measure(options: argparse.Namespace, folder: Path) -> Findings:
    found, checkpoint = Findings(), folder / "checkpoint"
    checkpoint.mkdir()
    write_shape(options.shape, checkpoint)
    deployment = {
        "model": str(checkpoint),
        "random_weights": True,
        "limits": {"max_concurrency": options.slots, "max_queue": 2048, "real_time": False},
        "server": {"port": 0, "voices": str(folder)},
    }
    with served(deployment, folder) as server:
        found.starts_s.append(server.ready_s)
    bursts, rates, crowd = ("4,8", "2,4", 8) if options.quick else ("32,128,256,512", "20,40", options.slots)
    count = 4 if options.quick else 40
    with served(deployment, folder) as server:
        found.starts_s.append(server.ready_s)
        found.runs += load(server, options.out, "bursts", "--burst", bursts, "--warm-up", "0")
        found.runs += load(server, options.out, "alone", "--closed", "1", "--requests", str(count))
        found.runs += load(server, options.out, "open", "--open", rates, "--requests", str(5 * count))
        found.runs += load(server, options.out, "closed", "--closed", str(crowd), "--requests", str(3 * crowd))
        found.slow_turns, found.turns_ms = server.slow_turns(), server.turns_ms()
    return found


def table(found: Findings) -> str:
    lines = ["| figure | found | must | strong | moonshot | level |", "|---|---|---|---|---|---|"]
    figures = found.figures()
    for key, target in TARGETS.items():
        values = " / ".join("-" if value is None else f"{value:.3g}" for value in figures[key])
        asked = " | ".join(" / ".join(f"{value:g}" for value in values) for values in target.asked)
        lines.append(f"| {target.name} | {values} {target.unit} | {asked} | {target.level(figures[key])} |")
    return "\n".join([*lines, f"\n{found.slow_turns:.0f} turns of the loop took more than 50 ms."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="qwen3-tts-1.7b")
    parser.add_argument("--slots", type=int, default=512)
    parser.add_argument("--out", type=Path, default=Path("."), help="where the reports go")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        print(table(measure(options, Path(folder))))


if __name__ == "__main__":
    main()
