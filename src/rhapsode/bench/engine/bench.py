"""An engine under measurement: built, wrapped, warmed up, and asked for rounds of equal requests."""

from __future__ import annotations

import queue
import resource
import time
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import numpy as np
import torch

from rhapsode.bench.engine.parts import Ledger, Parts
from rhapsode.bench.engine.plan import EnginePlan
from rhapsode.bench.engine.subject import Subject
from rhapsode.bench.engine.texts import sentence
from rhapsode.bench.engine.touched import weight_bytes
from rhapsode.device.place import pick_device, pick_dtype
from rhapsode.engine import Engine, Source, Speech
from rhapsode.errors import GenerationFailed
from rhapsode.types import FinishReason, Outcome, SpeechRequest

PATIENCE_S = 600.0
SILENCE = 1e-4
WARM_UP_FRAMES = 16


@dataclass(frozen=True)
class Round:
    """One batch of requests, submitted at once and heard to the end."""

    wall_s: float
    outcomes: tuple[Outcome, ...]
    cpu_s: float
    """Of all threads of this process."""
    chunks: int = 0

    @property
    def audio_s(self) -> float:
        return sum(outcome.audio_s for outcome in self.outcomes)

    def frame_ms(self) -> list[float]:
        """Per listener, from the first audio to the last: one frame of every listener, codec included."""
        return [
            (o.total_s - o.first_audio_s) / (o.frames - 1) * 1e3
            for o in self.outcomes
            if o.first_audio_s is not None and o.frames > 1
        ]


class EngineBench:
    """One engine in one mode. With `split`, parts are timed; in graphs that needs captures of their own."""

    def __init__(self, subject: Subject, plan: EnginePlan, mode: str, *, split: bool = False) -> None:
        self.subject, self.plan, self.mode = subject, plan, mode
        self.device = pick_device(plan.device)
        self.frames = plan.frames_in(mode, self.device.type)
        self.deployment = plan.deployment(subject, mode)
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._serial = plan.seed
        before = self._allocated()
        started_s = time.perf_counter()
        model = subject.model
        source = Source(model.checkpoint, model.config)
        self.engine = Engine(model.spec, self.deployment, source, self._outcomes.put)
        kinds = {stage.name: stage.kind for stage in model.spec.pipeline}
        self.parts = Parts(self.engine.pipeline.workers, kinds, self.device, endless=subject.frames)
        self.parts.timing = split and mode == "graphs"
        self.engine.start()
        self.parts.timing = False
        self.loaded_s = time.perf_counter() - started_s
        self.allocated_bytes = self._allocated() - before

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.stop()
        self.parts.remove()

    def warm_up(self) -> None:
        """Alone, then all together; and what comes out must be sound, not silence and not NaN."""
        for batch in sorted({1, max(self.plan.batches)}):
            _, speeches = self._round(batch, min(self.frames, WARM_UP_FRAMES))
            for speech in speeches:
                check_sound(speech)

    def round(self, batch: int) -> Round:
        done, speeches = self._round(batch, self.frames)
        return replace(done, chunks=sum(1 for speech in speeches for _ in speech))

    def split(self, batch: int) -> tuple[Round, Ledger]:
        """A round with its parts timed."""
        self.parts.start_timing()
        if self.mode == "graphs":
            with self.parts.reading_graphs():
                done = self.round(batch)
        else:
            done = self.round(batch)
        return done, self.parts.stop_timing()

    def memory(self) -> dict[str, int]:
        """Bytes: weights, KV pages, all the engine allocated, and the most there ever was."""
        workers, kv = self.engine.pipeline.workers, 0
        for stage in self.engine.spec.pipeline:
            if stage.kind == "frame":
                dtype = pick_dtype(self.deployment.dtype, self.device)
                per_position = sum(layout.bytes_per_position(dtype) for layout in workers[stage.name].kv())
                limits = self.deployment.limits
                kv += per_position * limits.max_concurrency * limits.max_positions
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self.device)
        else:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {
            "weights_bytes": weight_bytes(workers.values()),
            "kv_bytes": kv,
            "allocated_bytes": self.allocated_bytes,
            "peak_bytes": peak,
        }

    def _round(self, batch: int, frames: int) -> tuple[Round, list[Speech]]:
        requests = [self._request(frames) for _ in range(batch)]
        started_s, cpu_s = time.perf_counter(), time.process_time()
        speeches = [self.engine.submit(request) for request in requests]
        outcomes = [self._outcomes.get(timeout=PATIENCE_S) for _ in requests]
        wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
            if self.subject.frames and (outcome.frames, outcome.finish_reason) != (frames, FinishReason.LENGTH):
                raise GenerationFailed(f"a request ended after {outcome.frames} of {frames} frames.")
        return Round(wall_s, tuple(outcomes), cpu_s), speeches

    def _request(self, frames: int) -> SpeechRequest:
        self._serial += 1
        text = sentence(self.plan.chars(self.subject), self._serial)
        return SpeechRequest(
            text,
            self.plan.voice,
            language=self.plan.language,
            seed=self._serial,
            max_frames=frames if self.subject.frames else None,
        )

    def _allocated(self) -> int:
        return torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else 0


def check_sound(speech: Speech) -> None:
    """NaN or silence would make every number a lie."""
    samples = np.concatenate([chunk.samples for chunk in speech], axis=1)
    if not np.isfinite(samples).all():
        raise GenerationFailed("the engine made samples that are not finite numbers.")
    if float(np.abs(samples).max()) < SILENCE:
        raise GenerationFailed("the engine made silence.")
