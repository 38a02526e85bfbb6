"""Speed of one checkpoint with some listeners: what `bench engine` measures, in the numbers of a row."""

from __future__ import annotations

import os
import statistics
from typing import Any

from rhapsode.bench.engine.bench import EngineBench
from rhapsode.bench.engine.plan import EnginePlan
from rhapsode.bench.engine.subject import MeasuredModel
from rhapsode.bench.stats import percentile, rounded
from rhapsode.models.registry import Model
from rhapsode.published.precision import Precision
from rhapsode.published.steps import SPEED_AUDIO_S, SPEED_ROUNDS
from rhapsode.types import Voice


def measure_speed(
    name: str, model: Model, precision: Precision, listeners: int, voice: Voice, device: str, seed: int
) -> dict[str, Any]:
    """Runs rounds of requests that all arrive at once and have 4.2 s of speech each."""
    frames = round(SPEED_AUDIO_S * (model.spec.frame_hz or 12.5))
    subject = MeasuredModel(name, model, "own" if model.checkpoint is None else "checkpoint")
    plan = EnginePlan(
        batches=(listeners,),
        frames=frames,
        rounds=SPEED_ROUNDS,
        seed=seed,
        device=device,
        dtype=precision.dtype,
        weights=precision.weights,
        voice=voice,
    )
    load = _load_average()
    mode = "graphs" if subject.frames else "eager"
    with EngineBench(subject, plan, mode) as bench:
        bench.warm_up()
        rounds = [bench.round(listeners) for _ in range(SPEED_ROUNDS)]
        memory = bench.memory()
    outcomes = [outcome for done in rounds for outcome in done.outcomes]
    first_ms = [outcome.first_audio_s * 1e3 for outcome in outcomes if outcome.first_audio_s is not None]
    return {
        "precision": precision.name,
        "listeners": listeners,
        "requests": len(outcomes),
        "frames": frames if subject.frames else None,
        "first_audio_p50_ms": rounded(percentile(first_ms, 50)),
        "first_audio_p99_ms": rounded(percentile(first_ms, 99)),
        "rtf": rounded(statistics.median(done.wall_s / (done.audio_s / listeners) for done in rounds)),
        "audio_s_per_s": rounded(statistics.median(done.audio_s / done.wall_s for done in rounds)),
        "load_before": load,
        "underruns": sum(outcome.underruns for outcome in outcomes),
        "memory_bytes": {"weights": memory["weights_bytes"], "peak": memory["peak_bytes"]},
    }


def _load_average() -> float | None:
    """Returns how many programs used the processors in the last minute: others that run make a measurement slower."""
    try:
        return rounded(os.getloadavg()[0])
    except (OSError, AttributeError):
        return None
