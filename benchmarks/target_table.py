"""The targets of one H200, and which level the figures of `targets.py` reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FRAMES = 52
LEVELS = ("must", "strong", "moonshot")
STEADY = 0.25
"""How far a round may be off the median of its run."""
ROUND_VALUES = {"first_p50_ms": "first audio p50 ms", "first_p99_ms": "p99 ms", "audio_s_per_s": "audio-s/s"}

Run = dict[str, Any]


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


FRAME = ((2.1, 0.029), (1.9, 0.026), (1.7, 0.022))
TARGETS = {
    "alone": Target("first audio of one listener, p50 / p99", ((9, 12), (8, 10), (6, 8)), "ms"),
    "open": Target("first audio at 20 / 40 requests a second, p95", ((20, 25), (15, 18), (10, 12)), "ms"),
    "burst": Target(
        "first audio of 32 / 256 / 512 at once, p99", ((60, 300, 600), (45, 220, 450), (35, 150, 300)), "ms"
    ),
    "frame": Target("frame / real-time factor of one listener", FRAME, "ms /"),
    "frame8": Target("the same with 8-bit weights (`weights: fp8`)", FRAME, "ms /"),
    "throughput": Target("speech per second, best load", ((1600,), (2000,), (2500,)), "s", more_is_better=True),
    "listeners": Target("listeners without an underrun", ((512,), (768,), (1024,)), "", more_is_better=True),
    "turn": Target("longest turn of the loop after the start", ((50,), (30,), (20,)), "ms"),
    "start": Target("start with an empty / a full kernel cache", ((40, 8), (30, 6), (15, 4)), "s"),
    "cpu": Target("two CPU cores: real-time factor / first audio", ((0.16, 55), (0.12, 45), (0.10, 40)), "/ ms"),
}


@dataclass
class Findings:
    """What was measured so far. A run is a row of `rhapsode bench serve`, with its `part` and `server`."""

    runs: list[Run] = field(default_factory=list)
    starts_s: dict[str, float] = field(default_factory=dict)
    turns_ms: dict[str, float] = field(default_factory=dict)
    """The longest turn of each server's loop after its start."""
    slow_turns: dict[str, float] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """By part, why it gave nothing."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each part took."""

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "figures": self.figures()}

    def of_part(self, part: str) -> list[Run]:
        return [run for run in self.runs if run.get("part") == part]

    def worst(self, load: str, level: float, value: Callable[[Run], float | None]) -> float | None:
        """Returns the worst value of the runs of one load on a GPU, the first burst of a size included."""
        found = [value(run) for run in self._on_gpu() if run["load"].endswith(load) and run["level"] == level]
        return max((one for one in found if one is not None), default=None)

    def figures(self) -> dict[str, list[float | None]]:
        def first(percentile: str) -> Callable[[Run], float | None]:
            return lambda run: run["summary"].get("first_playable_ms", {}).get(percentile)

        cpu, fp8 = ([run for run in self.runs if run.get("server") == name] for name in ("two cores", "fp8"))
        return {
            "alone": [self.worst("closed", 1, first("p50")), self.worst("closed", 1, first("p99"))],
            "open": [self.worst("open", rate, first("p95")) for rate in (20, 40)],
            "burst": [self.worst("burst", size, first("p99")) for size in (32, 256, 512)],
            "frame": [self.worst("closed", 1, frame_ms), self.worst("closed", 1, rtf)],
            "frame8": [frame_ms(fp8[0]), rtf(fp8[0])] if fp8 else [None, None],
            "throughput": [max((run["audio_s_per_s"] for run in self._on_gpu()), default=None)],
            "listeners": [self._listeners()],
            "turn": [max((ms for name, ms in self.turns_ms.items() if name != "cores"), default=None)],
            "start": [self.starts_s.get("cold"), self.starts_s.get("warm")],
            "cpu": [rtf(cpu[0]), first("p50")(cpu[0])] if cpu else [None, None],
        }

    def _on_gpu(self) -> list[Run]:
        return [run for run in self.runs if run.get("server") not in ("two cores", "fp8")]

    def _listeners(self) -> float | None:
        """Returns the largest closed loop in which nobody ran dry, or was kept in the queue."""
        loops = [run for run in self._on_gpu() if run["load"] == "closed"]
        loud = [run["level"] for run in loops if run["underruns"] or run["errors"]]
        heard = [min(run["level"], run.get("places") or run["level"]) for run in loops if run["level"] not in loud]
        return max((level for level in heard if level < min(loud, default=1e9)), default=None)


def rtf(run: Run) -> float | None:
    value: float | None = run["summary"].get("rtf", {}).get("p50")
    return value


def frame_ms(run: Run) -> float | None:
    """Returns the median time of a frame: from the first audio to the end, by the frames that came in between."""
    samples, of_frame_ms = run["samples"], 1e3 / (run.get("frame_hz") or 12.5)
    names = ("first_playable_ms", "total_ms", "first_chunk_ms")
    times = zip(*(samples.get(name, ()) for name in names), strict=False)
    each = [
        (end - first) / (FRAMES - chunk / of_frame_ms) for first, end, chunk in times if chunk < FRAMES * of_frame_ms
    ]
    return statistics.median(each) if each else None


def table(found: Findings) -> str:
    lines = ["| figure | found | must | strong | moonshot | level |", "|---|---|---|---|---|---|"]
    figures = found.figures()
    for key, target in TARGETS.items():
        values = " / ".join("-" if value is None else f"{value:.3g}" for value in figures[key])
        asked = " | ".join(" / ".join(f"{value:g}" for value in values) for values in target.asked)
        lines.append(f"| {target.name} | {values} {target.unit} | {asked} | {target.level(figures[key])} |")
    turns = ", ".join(f"{name} {count:.0f}" for name, count in found.slow_turns.items())
    return "\n".join([*lines, f"\nTurns of the loop over 50 ms after the start: {turns or 'not measured'}."])


def round_lines(runs: Sequence[Run]) -> Iterator[str]:
    """Says for the bursts of a part what each round gave, the median, and the round that is farthest from it."""
    rounds = [one for run in runs for one in run.get("rounds", ())]
    for key, name in ROUND_VALUES.items():
        values = [one[key] for one in rounds if one[key]]
        if len(values) < 2:
            continue
        off = farthest(values)
        held = "steady" if off <= STEADY else f"NOT steady: over {STEADY:.0%}"
        shown = " ".join(f"{value:.4g}" for value in values)
        yield f"  {name}: {shown}; median {statistics.median(values):.4g}, farthest {off:+.0%} ({held})"


def farthest(values: Sequence[float]) -> float:
    """Returns how far the farthest value is from the median, as a part of the median."""
    median = statistics.median(values)
    return max(abs(value / median - 1) for value in values)


def run_line(run: Run) -> str:
    """Returns a run in one line."""
    first = run["summary"].get("first_playable_ms", {})
    times = " / ".join(f"{first[name]:.4g}" for name in ("p50", "p95", "p99")) if first else "none"
    left = run["summary"].get("least_left_ms")
    spare = f" (least left {left['min']:.0f} ms)" if left else ""
    errors = ", ".join(f"{count} x {kind}" for kind, count in run["errors"].items()) or "no errors"
    client = " CLIENT SLOW" if run["client"]["slow"] else ""
    return (
        f"  {run['label']}: {run['completed']} of {run['requests']}, first audio p50 / p95 / p99 {times} ms, "
        f"{run['audio_s_per_s']:.4g} audio-s/s, {run['underruns']} underruns in {run['requests_with_underruns']} "
        f"requests{spare}, {errors}; {run['wall_s']:.3g} s, client lag p99 {run['client']['lag_p99_ms']} ms, "
        f"busy {run['client']['busy']:.2g}{client}"
    )


def refusal_lines(run: Run) -> Iterator[str]:
    """Says whether `Retry-After` was true."""
    refused = run.get("refused")
    if not refused:
        yield "  nobody was refused"
        return
    told, after = refused["retry_after_s"], refused["first_playable_after_ms"]
    yield (
        f"  {refused['requests']} were refused and told to come back after {told['min']:g} to {told['max']:g} s "
        f"(median {told['p50']:g}); the queue was empty after {refused['queue_s']} s; {refused['again']} came too early"
    )
    if after:
        yield f"  those who came back heard the first audio after p50 / p99 {after['p50']:.4g} / {after['p99']:.4g} ms"
