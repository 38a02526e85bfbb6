"""Runs a plan and composes the report."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from rhapsode.bench.engine.bandwidth import copy_bandwidth
from rhapsode.bench.engine.bench import EngineBench, Round
from rhapsode.bench.engine.plan import EnginePlan
from rhapsode.bench.engine.section_times import SECTIONS, SectionTimes
from rhapsode.bench.engine.subject import MeasuredModel
from rhapsode.bench.progress import Advance, progress
from rhapsode.bench.report import Run, compose
from rhapsode.bench.stats import percentile, rounded
from rhapsode.device.place import pick_device, pick_dtype
from rhapsode.nn import kernels

STEP_SECTIONS = ("talker", "depth", "sampling")
Split = tuple[Round, SectionTimes]
Setting = tuple[str, int]
"""A mode and a batch."""


@dataclass
class Findings:
    """The measurements so far."""

    notes: list[str]
    rounds: dict[Setting, list[Round]] = field(default_factory=dict)
    splits: dict[Setting, Split] = field(default_factory=dict)
    weight_reads: dict[str, int] = field(default_factory=dict)
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    loaded_s: dict[str, float] = field(default_factory=dict)

    def floor_ms(self, bandwidth: float) -> float:
        return sum(self.weight_reads.get(name, 0) for name in STEP_SECTIONS) / bandwidth * 1e3


def measure(subject: MeasuredModel, plan: EnginePlan) -> dict[str, Any]:
    """Measures rounds without any recording first. Then separate engines count weights, and time sections of graphs."""
    device = pick_device(plan.device)
    modes = plan.modes() if subject.frames else ("eager",)
    split_graphs = "graphs" in modes and device.type == "cuda"  # a trace on a CPU keeps no sections
    found = Findings(_notes(subject))
    steps = len(modes) * (1 + len(plan.batches) * (plan.rounds + 1)) + split_graphs + subject.frames
    with progress(f"{subject.name} on {device}", steps) as advance:
        bandwidth = plan.bandwidth or copy_bandwidth(device)
        _measure_rounds(subject, plan, modes, found, advance)
        _free_memory(device)
        if subject.frames:
            _count_weights(subject, plan, found)
            advance("weights counted")
            _free_memory(device)
        if split_graphs:
            _split_graphs(subject, plan, found, advance)
    runs = [_run(mode, batch, found, plan.frames_in(mode, device.type), bandwidth) for mode, batch in found.rounds]
    config = _config(subject, plan, device, modes, bandwidth, found.loaded_s)
    return compose("engine", config, plan.seed, runs, found.notes)


def _measure_rounds(
    subject: MeasuredModel, plan: EnginePlan, modes: tuple[str, ...], found: Findings, advance: Advance
) -> None:
    """Alternates between the modes, so that other work on this machine affects all of them equally."""
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
                advance(f"eager, sections of batch {batch}")
        for mode, bench in benches.items():
            found.memory[mode] = bench.memory()


def _count_weights(subject: MeasuredModel, plan: EnginePlan, found: Findings) -> None:
    """Counts the weights that a frame reads. If a kernel has no reference in PyTorch, the report has a note instead."""
    try:
        with kernels.use("off"), EngineBench(subject, replace(plan, batches=(1,)), "eager") as bench:
            found.weight_reads = bench.weight_reads()
    except Exception as error:
        found.notes.append(f"the weights a frame reads could not be counted: {type(error).__name__}: {error}")


def _split_graphs(subject: MeasuredModel, plan: EnginePlan, found: Findings, advance: Advance) -> None:
    """Times the sections inside graphs. Where events cannot be captured, the report has a note instead."""
    try:
        with EngineBench(subject, plan, "graphs", with_events=True) as bench:
            bench.warm_up()
            advance("graphs with events ready")
            for batch in plan.batches:
                found.splits["graphs", batch] = bench.split(batch)
                advance(f"graphs, sections of batch {batch}")
    except Exception as error:
        found.notes.append(f"graphs could not be split into sections: {type(error).__name__}: {error}")


def _run(mode: str, batch: int, found: Findings, frames: int, bandwidth: float) -> Run:
    rounds, reads, floor_ms = found.rounds[mode, batch], found.weight_reads, found.floor_ms(bandwidth)
    frame_ms = [statistics.median(times) for done in rounds if (times := done.frame_ms())]
    counted = bool(frame_ms)
    facts: dict[str, Any] = {
        "mode": mode,
        "batch": batch,
        "frames": frames if counted else None,
        "rounds": len(rounds),
        "breakdown_ms": _breakdown(rounds, found.splits.get((mode, batch)), mode, frames if counted else 1),
        "weight_bytes_per_frame": {name: reads[name] for name in STEP_SECTIONS if name in reads},
        "weight_bytes_per_codec_launch": reads.get("codec"),
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
    """Returns milliseconds by section, per frame of the whole batch, prefill included; `host` is the rest."""
    clean_s = statistics.median(done.wall_s for done in rounds)
    timed_s, seconds = (clean_s, {}) if split is None else (split[0].wall_s, split[1].seconds)
    sections = {name: seconds[name] / frames * 1e3 for name in SECTIONS if name in seconds}
    # Timing graphs waits after each replay, so for graphs this is the wall time of the rounds without recording.
    wall_s = clean_s if mode == "graphs" else timed_s
    host = max(0.0, wall_s / frames * 1e3 - sum(sections.values()))
    return {name: rounded(value) for name, value in {**sections, "host": host}.items()}


def _config(
    subject: MeasuredModel,
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


def _notes(subject: MeasuredModel) -> list[str]:
    notes = []
    if subject.weights == "random":
        notes.append("random weights at fixed frame counts: quality cannot be judged")
    if subject.stand_ins:
        notes.append(f"stand-ins were used for {', '.join(subject.stand_ins)}")
    return notes


def _free_memory(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
