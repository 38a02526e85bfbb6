"""Measures the targets of docs/results.md over HTTP, on servers that this script starts, and prints the level reached.

    python benchmarks/targets.py [--out FOLDER] [--limit 250] [--servers cold,warm,crowd,fp8,cores] [--quick]

| server | slots | what it shows |
|---|---|---|
| cold | 256 | start with an empty kernel cache; the first bursts of 32, 128, 256; three times five bursts of 256 |
| warm | 256 | start with a full cache; one listener; 20 and 40 requests a second; bursts; 256 listeners |
| crowd | 1024 | bursts of 512; 512, 768, 1,024 listeners; 1,500 askers, some of whom are refused and come back |
| fp8 | 8 | one listener with 8-bit weights |
| cores | | the default voice on two CPU cores |

Weights are random, speech has 52 frames (4.2 s), settings are the defaults: a server lets in as many as it serves in
real time. Every result is printed at once, and `targets.json` in the folder holds all so far, so that a run that is
cut off loses little; a part that fails says why, and the others go on. A part that does not fit the limit is skipped.
`--quick` is a rehearsal with little load, for a computer without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.machine_state import gpu_state, machine_lines, machine_state
from benchmarks.started_server import Served, started
from benchmarks.target_table import FRAMES, Findings, refusal_lines, round_lines, run_line, table

from rhapsode.bench.engine.subject import write_shape
from rhapsode.bench.quality.prompts import OURS, read_prompts
from rhapsode.bench.serve.client_processes import ClientProcesses
from rhapsode.bench.serve.load_level import LoadLevel
from rhapsode.bench.serve.measure import ServePlan, measure
from rhapsode.bench.serve.server import speech_server

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Part:
    """One load, how many requests it has in all, and how long it is expected to take."""

    name: str
    load: LoadLevel
    requests: int
    expected_s: float


@dataclass(frozen=True)
class Plan:
    """A server with its parts, in the order they are measured."""

    name: str
    parts: Sequence[Part]
    slots: int = 256
    max_queue: int = 1024
    start_s: float = 15.0
    """How long its start is expected to take."""
    compile_processes: int | None = None
    weights: str = "auto"


def burst(name: str, size: int, rounds: int, expected_s: float, retries: int = 0) -> Part:
    return Part(name, LoadLevel("burst", size, retries=retries), size * rounds, expected_s)


def closed(clients: int, each: int, expected_s: float) -> Part:
    return Part(f"{clients} listeners", LoadLevel("closed", clients, retries=3), clients * each, expected_s)


def plans() -> list[Plan]:
    first = [burst(f"burst of {size} after a cold start", size, 2, 3) for size in (32, 128, 256)]
    steady = [burst(f"five bursts of 256, {n}", 256, 5, 8) for n in ("first", "second", "third")]
    alone = Part("one listener", LoadLevel("closed", 1), 50, 9)
    rates = [Part(f"{rate} a second", LoadLevel("open", rate), count, 9) for rate, count in ((20, 160), (40, 240))]
    bursts = [burst("bursts of 32", 32, 3, 2), burst("bursts of 256", 256, 3, 4)]
    crowd = [burst("bursts of 512", 512, 3, 8), closed(512, 3, 7), closed(768, 3, 9), closed(1024, 3, 11)]
    askers = burst("1500 askers", 1500, 1, 15, retries=3)
    return [
        Plan("cold", [*first, *steady], start_s=60),
        Plan("warm", [alone, *rates, *bursts, closed(256, 3, 5)]),
        # After another server the kernels for more rows are few: to start compiling processes would take longer.
        Plan("crowd", [*crowd, askers], slots=1024, max_queue=440, start_s=25, compile_processes=0),
        Plan("fp8", [replace(alone, name="one listener, fp8")], slots=8, start_s=20, weights="fp8"),
        Plan("cores", [Part("two cores", LoadLevel("closed", 1), 12, 15)], slots=4, start_s=10),
    ]


def quick_plans() -> list[Plan]:
    """The same servers and parts with little load."""

    def smaller(part: Part) -> Part:
        rounds, kind = max(1, round(part.requests / part.load.level)), part.load.kind
        level = max(1, part.load.level // (64 if kind != "open" else 4))
        requests = 8 if kind == "open" else int(level * min(rounds, 5))
        return replace(part, load=replace(part.load, level=level), requests=requests)

    return [
        replace(plan, parts=[smaller(part) for part in plan.parts], slots=16 if plan.slots == 1024 else 4, max_queue=4)
        for plan in plans()
    ]


def deployment(plan: Plan, model: str, folder: Path) -> dict[str, Any]:
    limits = {"max_concurrency": plan.slots, "max_queue": plan.max_queue}
    settings: dict[str, Any] = {"limits": limits, "server": {"port": 0, "voices": str(folder)}}
    if plan.name == "cores":
        return settings | {"device": "cpu"}
    compiles = plan.compile_processes if (folder / "kernels").exists() else None
    settings |= {"compile_processes": compiles, "random_weights": (Path(model) / "config.json").exists()}
    return settings | {"model": model, "weights": plan.weights}


class Measurement:
    """Measures part after part; keeps what was found in files at all times."""

    def __init__(self, out: Path, limit_s: float, crowd: ClientProcesses, processes: int) -> None:
        self.found = Findings(machine=machine_state())
        self._out, self._crowd, self._processes = out, crowd, processes
        self._begun_s, self._limit_s = time.monotonic(), limit_s
        self._texts = tuple(prompt.text for prompt in read_prompts(OURS))
        say("\n".join(machine_lines(self.found.machine)))

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun_s

    def attempt(self, part: str, expected_s: float, work: Callable[[], None]) -> bool:
        """Does a part; if it fails, or does not fit the limit, says why and goes on."""
        if self.elapsed_s + expected_s > self._limit_s:
            left_s = self._limit_s - self.elapsed_s
            self._fail(part, f"skipped: it takes about {expected_s:g} s, and {left_s:.0f} s are left")
            return False
        begun_s = time.monotonic()
        try:
            work()
        except (Exception, SystemExit) as error:
            if not isinstance(error, ChildProcessError):
                traceback.print_exc(limit=-3)
            self._fail(part, f"{type(error).__name__}: {error}")
            return False
        finally:
            self.found.seconds[part] = round(time.monotonic() - begun_s, 2)
            self.write()
        return True

    def _fail(self, part: str, why: str) -> None:
        self.found.failures[part] = why
        say(f"[{self.elapsed_s:5.1f} s] {part}: FAILED: {why}")

    def serve(self, plan: Plan, model: str, folder: Path) -> None:
        """Starts a server and measures its parts."""
        cores = 2 if plan.name == "cores" else None
        log = self._out / f"{plan.name}.log"
        with started(deployment(plan, model, folder), folder, log, cores) as server:
            self.found.starts_s[plan.name] = server.ready_s
            say(
                f"[{self.elapsed_s:5.1f} s] {plan.name}: ready after {server.ready_s:.1f} s, {plan.slots} slots, "
                f"pid {server.process.pid}"
            )
            for line in server.start_lines():
                say(f"  {line}")
            for part in plan.parts:
                if server.process.poll() is not None:
                    raise ChildProcessError(f"the server has ended:\n{server.last_lines()}")
                self.attempt(part.name, part.expected_s, lambda part=part: self._apply(plan, part, server))  # type: ignore[misc]
            self.found.slow_turns[plan.name] = server.metric("slow_turns_total")
            self.found.turns_ms[plan.name] = server.metric("longest_turn_seconds", max) * 1e3
            say(f"  longest turn after the start {self.found.turns_ms[plan.name]:.1f} ms")

    def _apply(self, plan: Plan, part: Part, server: Served) -> None:
        is_alone = part.load.level == 1
        fields = {} if plan.name == "cores" else {"max_new_tokens": FRAMES}
        given = ServePlan(
            speech_server(server.url, "rhapsode", extra=fields),
            (part.load,),
            self._texts,
            requests=part.requests,
            warm_up=1 if is_alone else 0,
            timeout_s=TIMEOUT_S,
            processes=1 if is_alone else self._processes,
        )
        report = measure(given, None if is_alone else self._crowd)
        try:
            places = server.metric("real_time_listeners")
        except OSError:  # what was heard counts, even if the server has ended since
            places = 0.0
        beside = {"part": part.name, "server": "two cores" if plan.name == "cores" else plan.name}
        beside |= {"places": places, "frame_hz": report["config"]["frame_hz"]}
        if part is plan.parts[-1]:  # while its clocks are still those of the load; asking takes some time
            self.found.machine[f"gpu after {plan.name}"] = gpu_state()
        runs = [{**run, **beside, "load_average": os.getloadavg()} for run in report["runs"]]
        self.found.runs += runs
        say(f"[{self.elapsed_s:5.1f} s] {plan.name}: {part.name} ({places:.0f} places, load {os.getloadavg()[0]:.1f})")
        for run in runs:
            say(run_line(run))
        refusals = refusal_lines(runs[0]) if part.load.retries and runs[0]["refused"] else ()
        for line in [*round_lines(runs), *refusals]:
            say(line)

    def write(self) -> None:
        """Writes all that was found so far."""
        for name, text in (("targets.json", json.dumps(self.found.as_dict())), ("targets.md", self.summary())):
            unfinished = self._out / f"{name}.part"
            unfinished.write_text(f"{text}\n", "utf-8")
            unfinished.replace(self._out / name)

    def summary(self) -> str:
        return "\n".join([*machine_lines(self.found.machine), "", table(self.found), *self._further()])

    def _further(self) -> Iterator[str]:
        steady = [run for run in self.found.runs if str(run["part"]).startswith("five bursts")]
        if steady:
            yield "\nAll bursts of 256, three runs of five:"
            yield from round_lines(steady)
        for run in self.found.of_part("1500 askers"):
            yield f"\n{run_line(run).strip()}"
            yield from refusal_lines(run)
        for part, why in self.found.failures.items():
            yield f"\nNot measured: {part}: {why.splitlines()[0]}"
        yield f"\n{self.elapsed_s:.0f} s in all, load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}."


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="qwen3-tts-1.7b", help="a shape of `rhapsode bench shape`, or a family")
    parser.add_argument("--out", type=Path, default=Path("."), help="where results and logs go")
    parser.add_argument("--limit", type=float, default=250.0, help="seconds after which no part begins")
    parser.add_argument("--servers", default="cold,warm,crowd,fp8", help="which of cold, warm, crowd, fp8, cores")
    parser.add_argument("--processes", type=int, default=8, help="client processes")
    parser.add_argument("--quick", action="store_true", help="little load, for a rehearsal")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = options.servers.split(",")
    chosen = [plan for plan in (quick_plans() if options.quick else plans()) if plan.name in wanted]
    with tempfile.TemporaryDirectory() as name, ClientProcesses(options.processes) as crowd:
        folder = Path(name)
        measurement = Measurement(options.out, options.limit, crowd, options.processes)
        model = options.shape
        if model != "dummy":
            model = str(folder / "checkpoint")
            Path(model).mkdir()
            write_shape(options.shape, Path(model))
        for plan in chosen:
            serve = lambda plan=plan: measurement.serve(plan, model, folder)  # noqa: E731
            measurement.attempt(f"server {plan.name}", plan.start_s, serve)
        measurement.write()
        say("\n" + measurement.summary())


if __name__ == "__main__":
    main()
