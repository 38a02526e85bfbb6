"""Prints where the time until first audio goes, over HTTP, on a server that this script starts.

    python benchmarks/timeline.py [--shape qwen3-tts-1.7b] [--loads 1,20/s,40/s] [--seconds 5] [--slots 64]

For each load (`1` is one listener after the other, `20/s` are arrivals at random moments) it prints the milliseconds
from the arrival of a request to each step, and from one step to the next: median and 95th percentile. What the GPU does
is timed by its own events. `benchmarks/timeline_server.py` says what the steps are. HTTP and the engine share a process
here, because methods of both are timed: one listener hears something half a millisecond earlier than from two.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.started_server import started
from benchmarks.target_table import run_line

from rhapsode.bench.engine.subject import write_shape
from rhapsode.bench.quality.prompts import OURS, read_prompts
from rhapsode.bench.serve.load_level import LoadLevel
from rhapsode.bench.serve.measure import ServePlan, measure
from rhapsode.bench.serve.server import speech_server

FRAMES = 52
STEPS = (
    "arrived",
    "parsed",
    "admitted",
    "prepared",
    "in the loop",
    "prompt launched",
    "prompt begun",
    "prompt done",
    "frame launched",
    "frame landed",
    "chunk launched",
    "chunk landed",
    "delivered",
    "taken",
    "written",
)


def load_of(text: str, seconds: float) -> tuple[LoadLevel, int]:
    """Returns a load, and how many requests it has."""
    if text.endswith("/s"):
        rate = int(text[:-2])
        return LoadLevel("open", rate), round(rate * seconds)
    return LoadLevel("closed", int(text)), 40 * int(text)


def percentile(values: Iterable[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[round(part * (len(ordered) - 1))] if ordered else float("nan")


def table(requests: Sequence[dict[str, float]]) -> str:
    """The steps in the order of their medians."""
    known = [step for step in STEPS if any(step in times for times in requests)]
    at_ms = {step: [(t[step] - t["arrived"]) * 1e3 for t in requests if step in t] for step in known}
    known.sort(key=lambda step: percentile(at_ms[step], 0.5))
    lines = [f"{'step':<18}{'p50':>8}{'p95':>8}{'since the step before, p50':>30}{'p95':>8}"]
    for before, step in zip([known[0], *known], known, strict=False):
        since_ms = [(t[step] - t[before]) * 1e3 for t in requests if step in t and before in t]
        figures = [percentile(of, part) for of in (at_ms[step], since_ms) for part in (0.5, 0.95)]
        lines.append("{:<18}{:>8.2f}{:>8.2f}{:>30.2f}{:>8.2f}".format(step, *figures))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="qwen3-tts-1.7b", help="a shape of `rhapsode bench shape`, or a family")
    parser.add_argument("--loads", default="1,20/s,40/s")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load with arrivals")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--log", type=Path, default=Path("timeline.log"))
    options = parser.parse_args()
    texts = tuple(prompt.text for prompt in read_prompts(OURS))
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), options.shape
        settings = {
            "limits": {"max_concurrency": options.slots},
            "server": {"port": 0, "voices": name, "engine_process": False},
        }
        if options.shape != "dummy":
            model = str(folder / "checkpoint")
            Path(model).mkdir()
            write_shape(options.shape, Path(model))
            settings |= {"random_weights": True, "compile_processes": 0}
        marks = folder / "timeline.jsonl"
        marks.touch()
        os.environ["TIMELINE"] = str(marks)
        kernels = Path(os.environ.get("TRITON_CACHE_DIR", folder / "kernels"))
        given_server = ({"model": model, **settings}, folder, options.log)
        with started(*given_server, module="benchmarks.timeline_server", kernels=kernels) as server:
            print(f"ready after {server.ready_s:.1f} s", flush=True)
            for given in options.loads.split(","):
                load, count = load_of(given, options.seconds)
                fields = {"max_new_tokens": FRAMES} if options.shape != "dummy" else {}
                served = speech_server(server.url, "rhapsode", extra=fields)
                already = len(marks.read_text("utf-8").splitlines())
                run = measure(ServePlan(served, (load,), texts, requests=count, warm_up=2))["runs"][0]
                requests = [json.loads(line) for line in marks.read_text("utf-8").splitlines()[already:]][2:]
                print(f"\n{run_line(run).strip()}")
                print(table(requests), flush=True)


if __name__ == "__main__":
    main()
