"""Opens an engine and warms it up: runs a few short requests before the first listener comes."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from rhapsode.config import Deployment
from rhapsode.device.early_start import start_cuda
from rhapsode.engine import Engine, Source, loading
from rhapsode.engine.compile import Compilation, begin_early
from rhapsode.errors import InvalidRequest
from rhapsode.models.registry import Model
from rhapsode.tts import open_engine
from rhapsode.types import Outcome, SpeechRequest, Voice

log = logging.getLogger("rhapsode.serve")

WARM_UP_TEXT = "The quick brown fox jumps over the lazy dog."
FIRST_FRAMES, PACE_FRAMES = 4, 10
PACE_GROWTH = 4
"""How much larger each batch of the warm-up is than the one before."""


def start_early(model: Model, deployment: Deployment) -> Compilation | None:
    """Starts the work that need not wait for torch: compiling kernels, if the kernel cache is empty, and CUDA."""
    source = Source(model.checkpoint, model.config)
    compiling = begin_early(model.spec, source, deployment, log.info)
    if any(stage.kind == "frame" for stage in model.spec.pipeline):
        start_cuda(deployment.device)
    return compiling


def open_warm(
    model: Model,
    deployment: Deployment,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
    compiling: Compilation | None = None,
) -> Engine:
    """Returns an engine that is ready for listeners. Outcomes of the warm-up are not reported."""
    is_warm = False

    def report(outcome: Outcome) -> None:
        if is_warm:
            on_outcome(outcome)

    engine = open_engine(model, deployment, report, compiling)
    try:
        loading.report("warm-up")
        _warm_up(engine)
        engine.forget_turns()
        loading.report("garbage collection")
        gc.collect()
        gc.freeze()  # else each full collection scans the whole model and blocks the event loop
    except BaseException:
        engine.stop()
        raise
    finally:
        loading.done()
    is_warm = True
    return engine


def _warm_up(engine: Engine) -> None:
    """Speaks a few frames, so that the first request does not pay for anything that is set up on first use."""
    size = engine.info.embedding_size
    voice = Voice(embedding=(0.1,) * size) if size else Voice()
    for attempt in (Voice(), voice):
        with suppress(InvalidRequest):  # some models refuse requests without a voice, others those with an embedding
            request = SpeechRequest(WARM_UP_TEXT, attempt, seed=0, max_frames=FIRST_FRAMES)
            _hear(engine, request, 1)
            _measure_pace(engine, replace(request, max_frames=PACE_FRAMES))
            return


def _measure_pace(engine: Engine, request: SpeechRequest) -> None:
    """Speaks with growing batches until one is slower than real time, so that admission knows the pace from the start.

    A model that yields audio itself serves its listeners one after the other, so there is no batch to measure.
    """
    has_batches = any(stage.kind == "frame" for stage in engine.spec.pipeline)
    rows, load = 1, engine.load()
    while engine.deployment.limits.real_time and has_batches and rows < load.slots and load.places >= rows:
        rows = min(PACE_GROWTH * rows, load.slots)
        _hear(engine, request, rows)
        load = engine.load()


def _hear(engine: Engine, request: SpeechRequest, times: int) -> None:
    """Speaks this many requests concurrently. Their texts differ, so that prompts share no KV pages and no prefill is
    skipped."""
    requests = [replace(request, text=f"{times} {i}: {request.text}") for i in range(times)]
    for speech in [engine.submit(request) for request in requests]:
        for _ in speech:
            pass
    while engine.load().slots_in_use:  # a slot becomes free shortly after its request has ended
        time.sleep(0.001)
