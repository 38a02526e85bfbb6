"""Opens an engine and warms it up: runs a few short requests before the first listener comes."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from rhapsode import loading
from rhapsode.config import Deployment
from rhapsode.device.early_start import start_cuda
from rhapsode.engine import Source, StageFailed
from rhapsode.errors import Busy, GenerationFailed, InvalidRequest, RhapsodeError, TimedOut
from rhapsode.kernel_cache.compilation import Compilation, begin_early
from rhapsode.models.registry import Model
from rhapsode.tts import open_engine
from rhapsode.types import Outcome, SpeechRequest, Voice

if TYPE_CHECKING:
    from rhapsode.engine import Engine

log = logging.getLogger("rhapsode.serve")

WARM_UP_TEXT = "The quick brown fox jumps over the lazy dog."
FIRST_FRAMES, PACE_FRAMES = 4, 10
PACE_GROWTH = 4
"""How much larger each batch of the warm-up is than the one before."""


def start_early(model: Model, deployment: Deployment) -> Compilation | None:
    """Starts the work that need not wait for torch: compiling kernels, if the kernel cache is empty, and CUDA."""
    source = Source(model.checkpoint, model.config)
    compiling = begin_early(model.spec, source, deployment, log.info)
    if model.spec.source is not None:
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


def load_aligner(engine: Engine) -> None:
    """Loads the acoustic model of word times in a thread, for the page, whose first click asks for them."""

    def load() -> None:
        try:
            alignment.load()
        except RhapsodeError as error:
            log.warning("no word times: %s", error.message)
        else:
            log.info("word times ready")

    alignment = engine.alignment  # not the engine: the thread must not keep it
    threading.Thread(target=load, name="rhapsode-aligner", daemon=True).start()


def _warm_up(engine: Engine) -> None:
    """Speaks a few frames, so that the first request does not pay for anything that is set up on first use.

    What a model makes of one sentence never ends a start: it is logged. A stage that fails, as without memory, does.
    """
    size = engine.info.embedding_size
    voices = [Voice(), Voice(embedding=(0.1,) * size)] if size else [Voice()]
    failed: RhapsodeError | None = None
    for voice in voices:  # some models refuse requests without a voice, others those with an embedding
        request = SpeechRequest(WARM_UP_TEXT, voice, seed=0, max_frames=FIRST_FRAMES)
        try:
            failed = _hear(engine, request, 1)
            failed = _measure_pace(engine, replace(request, max_frames=PACE_FRAMES)) or failed
        except (InvalidRequest, Busy, TimedOut) as error:
            failed = error
        else:
            break
    if failed is not None:
        fields = {"code": failed.code, "why": repr(failed.message)}
        log.warning("the warm-up sentence was not spoken; the server starts all the same", extra={"fields": fields})


def _measure_pace(engine: Engine, request: SpeechRequest) -> RhapsodeError | None:
    """Speaks with growing batches until one is slower than real time, so that admission knows the pace from the start.

    A model that yields audio itself serves its listeners one after the other, so there is no batch to measure.
    Returns an error that a batch had, as `_hear` does.
    """
    failed: RhapsodeError | None = None
    has_batches = engine.spec.source is not None
    rows, load = 1, engine.load()
    while engine.deployment.limits.real_time and has_batches and rows < load.slots and load.places >= rows:
        rows = min(PACE_GROWTH * rows, load.slots)
        failed = _hear(engine, request, rows) or failed
        load = engine.load()
    return failed


def _hear(engine: Engine, request: SpeechRequest, times: int) -> RhapsodeError | None:
    """Speaks this many requests concurrently. Their texts differ, so that prompts share no KV pages and no prefill is
    skipped. Returns the error of one that the model did not speak, such as empty audio."""
    failed: RhapsodeError | None = None
    requests = [replace(request, text=f"{times} {i}: {request.text}") for i in range(times)]
    with ExitStack() as speeches:
        for speech in [speeches.enter_context(engine.submit(request)) for request in requests]:
            try:
                for _ in speech:
                    pass
            except StageFailed:
                raise
            except GenerationFailed as error:
                failed = error
    while engine.load().slots_in_use:  # a slot becomes free shortly after its request has ended
        time.sleep(0.001)
    return failed
