"""From a plan to the runs of a report."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from rhapsode.bench.engine.bandwidth import copy_bandwidth
from rhapsode.bench.engine.bench import EngineBench, Round
from rhapsode.bench.engine.parts import PARTS, Ledger
from rhapsode.bench.engine.plan import EnginePlan
from rhapsode.bench.engine.subject import Subject
from rhapsode.bench.progress import Advance, progress
from rhapsode.bench.report import Run, compose
from rhapsode.bench.stats import percentile, rounded
from rhapsode.device.place import pick_device, pick_dtype

Split = tuple[Round, Ledger]
Setting = tuple[str, int]
"""A mode and a batch."""


@dataclass
class Findings:
    """What has been measured so far."""

    notes: list[str]
    rounds: dict[Setting, list[Round]] = field(default_factory=dict)
    splits: dict[Setting, Split] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    loaded_s: dict[str, float] = field(default_factory=dict)

    def floor_ms(self, bandwidth: float) -> float:
        return sum(self.touched.get(part, 0) for part in ("talker", "depth", "sampling")) / bandwidth * 1e3


def measure(subject: Subject, plan: EnginePlan) -> dict[str, Any]:
    """Clean rounds first; captured graphs are split into parts by an engine of their own."""
    device = pick_device(plan.device)
    modes = plan.modes() if subject.frames else ("eager",)
    marked = "graphs" in modes and device.type == "cuda"  # no clock can be read inside of a trace
    found = Findings(_notes(subject))
    steps = len(modes) * (1 + len(plan.batches) * (plan.rounds + 1)) + marked
    with progress(f"{subject.name} on {device}", steps) as advance:
        bandwidth = plan.bandwidth or copy_bandwidth(device)
        _measure_clean(subject, plan, modes, found, advance)
        _let_go(device)
        if marked:
            _split_graphs(subject, plan, found, advance)
    runs = [_run(mode, batch, found, plan.frames_in(mode, device.type), bandwidth) for mode, batch in found.rounds]
    config = _config(subject, plan, device, modes, bandwidth, found.loaded_s)
    return compose("engine", config, plan.seed, runs, found.notes)


def _measure_clean(
    subject: Subject, plan: EnginePlan, modes: tuple[str, ...], found: Findings, advance: Advance
) -> None:
    """All modes in turn, so that whatever disturbs this machine disturbs them alike."""
    found.rounds = {(mode, batch): [] for mode in modes for batch in plan.batches}
    with ExitStack() as stack:
        benches: dict[str, EngineBench] = {}
        for mode in modes:
            benches[mode] = stack.enter_context(EngineBench(subject, plan, mode))
            benches[mode].warm_up()
            found.loaded_s[mode] = rounded(benches[mode].loaded_s)
            advance(f"{mode} ready")
        for batch in plan.batches:
            for _ in range(plan.rounds):
                for mode, bench in benches.items():
                    found.rounds[mode, batch].append(bench.round(batch))
                    advance(f"{mode}, batch {batch}")
            if "eager" in benches:
                found.splits["eager", batch] = benches["eager"].split(batch)
                advance(f"eager, parts of batch {batch}")
        for mode, bench in benches.items():
            found.memory[mode] = bench.memory()
            found.touched |= bench.parts.touched
            found.notes += bench.parts.notes


def _split_graphs(subject: Subject, plan: EnginePlan, found: Findings, advance: Advance) -> None:
    """What is clean is measured already: where marks cannot be captured, that is noted and nothing is lost."""
    try:
        with EngineBench(subject, plan, "graphs", split=True) as bench:
            bench.warm_up()
            advance("graphs with marks ready")
            for batch in plan.batches:
                found.splits["graphs", batch] = bench.split(batch)
                advance(f"graphs, parts of batch {batch}")
    except Exception as error:
        found.notes.append(f"graphs could not be split into parts: {type(error).__name__}: {error}")


def _run(mode: str, batch: int, found: Findings, frames: int, bandwidth: float) -> Run:
    rounds, touched, floor_ms = found.rounds[mode, batch], found.touched, found.floor_ms(bandwidth)
    frame_ms = [statistics.median(times) for done in rounds if (times := done.frame_ms())]
    counted = bool(frame_ms)
    facts: dict[str, Any] = {
        "mode": mode,
        "batch": batch,
        "frames": frames if counted else None,
        "rounds": len(rounds),
        "breakdown_ms": _breakdown(rounds, found.splits.get((mode, batch)), mode, frames if counted else 1),
        "weight_bytes_per_frame": {name: touched[name] for name in ("talker", "depth", "sampling") if name in touched},
        "weight_bytes_per_codec_launch": touched.get("codec"),
        "floor_ms": rounded(floor_ms) if counted and floor_ms else None,
        "times_floor": rounded(percentile(frame_ms, 50) / floor_ms) if counted and floor_ms else None,
        "underruns": sum(o.underruns for done in rounds for o in done.outcomes),
        "memory": found.memory[mode],
    }
    samples = {
        "frame_ms": frame_ms,
        "first_audio_ms": [o.first_audio_s * 1e3 for d in rounds for o in d.outcomes if o.first_audio_s is not None],
        "wall_s": [done.wall_s for done in rounds],
        "audio_s_per_s": [done.audio_s / done.wall_s for done in rounds],
        "rtf": [done.wall_s / (done.audio_s / batch) for done in rounds],
        "cpu_us_per_chunk": [done.cpu_s / done.chunks * 1e6 for done in rounds],
    }
    return Run(f"{mode}, batch {batch}", samples, facts)


def _breakdown(rounds: list[Round], split: Split | None, mode: str, frames: int) -> dict[str, float]:
    """Milliseconds per frame of the whole batch, prompts included; without frames, of all of it."""
    clean_s = statistics.median(done.wall_s for done in rounds)
    timed_s, seconds = (clean_s, {}) if split is None else (split[0].wall_s, split[1].seconds)
    parts = {part: seconds[part] / frames * 1e3 for part in PARTS if part in seconds}
    # Reading graphs waits after each replay, so there the whole comes from the rounds that were not disturbed.
    wall_s = clean_s if mode == "graphs" else timed_s
    host = max(0.0, wall_s / frames * 1e3 - sum(parts.values()))
    return {name: rounded(value) for name, value in {**parts, "host": host}.items()}


def _config(
    subject: Subject,
    plan: EnginePlan,
    device: torch.device,
    modes: tuple[str, ...],
    bandwidth: float,
    loaded_s: Mapping[str, float],
) -> dict[str, Any]:
    spec = subject.spec
    return {
        "subject": subject.name,
        "family": spec.name,
        "weights": subject.weights,
        "frame_hz": spec.frame_hz,
        "sample_rate": spec.sample_rate,
        "device": str(device),
        "dtype": str(pick_dtype(plan.dtype, device)).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "modes": list(modes),
        "batches": list(plan.batches),
        "bandwidth_bytes_per_s": rounded(bandwidth),
        "bandwidth_measured": plan.bandwidth is None,
        "loaded_s": dict(loaded_s),
        "deployment": plan.deployment(subject, modes[0]).model_dump(mode="json"),
    }


def _notes(subject: Subject) -> list[str]:
    notes = []
    if subject.weights == "random":
        notes.append("random weights at fixed frame counts: this says nothing of quality")
    if subject.stand_ins:
        notes.append(f"stand-ins were used for {', '.join(subject.stand_ins)}")
    return notes


def _let_go(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
