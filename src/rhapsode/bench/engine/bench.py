"""One engine to be measured: it is built and warmed up, and then runs rounds of equal requests."""

from __future__ import annotations

import queue
import resource
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import numpy as np
import torch

from rhapsode.bench.engine.clock import clock_for
from rhapsode.bench.engine.plan import EnginePlan
from rhapsode.bench.engine.section_times import SectionTimes
from rhapsode.bench.engine.stand_in_voice import voice_for
from rhapsode.bench.engine.subject import MeasuredModel
from rhapsode.bench.engine.texts import sentence
from rhapsode.bench.engine.weight_reads import WeightReads, unpacked, weight_bytes
from rhapsode.device.place import pick_device, pick_dtype
from rhapsode.device.sections import recording
from rhapsode.engine import Engine, Source, Speech
from rhapsode.errors import GenerationFailed
from rhapsode.models.base import traits_of
from rhapsode.types import FinishReason, Outcome, SpeechRequest

TIMEOUT_S = 600.0
SILENCE = 1e-4
WARM_UP_FRAMES = 16
COUNTED_FRAMES = 2


@dataclass(frozen=True)
class Round:
    """One batch of requests, submitted at once and run to the end."""

    wall_s: float
    outcomes: tuple[Outcome, ...]
    cpu_s: float
    """CPU seconds of all threads of this process."""
    chunks: int = 0

    @property
    def audio_s(self) -> float:
        return sum(outcome.audio_s for outcome in self.outcomes)

    def frame_ms(self) -> list[float]:
        """Returns for each request the time per frame between its first audio and its last, codec included."""
        return [
            (o.total_s - o.first_audio_s) / (o.frames - 1) * 1e3
            for o in self.outcomes
            if o.first_audio_s is not None and o.frames > 1
        ]


class EngineBench:
    """One engine in one mode. With `with_events`, the graphs it captures hold events of their sections.

    Every request runs to its frame count, so that random weights or a short text do not change the measurement.
    """

    def __init__(self, subject: MeasuredModel, plan: EnginePlan, mode: str, *, with_events: bool = False) -> None:
        self.subject, self.plan, self.mode = subject, plan, mode
        self.device = pick_device(plan.device)
        self.frames = plan.frames_in(mode, self.device.type)
        self.deployment = plan.deployment(subject, mode)
        self._clock = clock_for(self.device)
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._serial = plan.seed
        before = self._allocated()
        started_s = time.perf_counter()
        source = Source(subject.model.checkpoint, subject.model.config, endless=True)
        self.engine = Engine(subject.spec, self.deployment, source, self._outcomes.put)
        with recording(SectionTimes(self._clock)) if with_events else nullcontext():
            self.engine.start()
        self._voice = voice_for(plan.voice, self.engine.info, subject.weights == "random", plan.seed)
        self.loaded_s = time.perf_counter() - started_s
        self.allocated_bytes = self._allocated() - before

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.stop()

    def warm_up(self) -> None:
        """Runs one request alone, then the largest batch. Their audio must be neither silence nor NaN."""
        for batch in sorted({1, max(self.plan.batches)}):
            _, speeches = self._round(batch, min(self.frames, WARM_UP_FRAMES))
            for speech in speeches:
                check_sound(speech)

    def round(self, batch: int) -> Round:
        done, speeches = self._round(batch, self.frames)
        return replace(done, chunks=sum(1 for speech in speeches for _ in speech))

    def split(self, batch: int) -> tuple[Round, SectionTimes]:
        """Runs a round and times its sections. With graphs it takes longer: the host reads times after each replay."""
        times = SectionTimes(self._clock)
        with recording(times):
            done = self.round(batch)
        times.settle()
        return done, times

    def weight_reads(self) -> dict[str, int]:
        """Counts the bytes of weights one request reads per step and per codec launch.

        Only for an eager engine that was made with GPU kernels off: operators inside a kernel cannot be observed.
        """
        workers = self.engine.pipeline.workers.values()
        reads = WeightReads(workers)
        with unpacked(workers), recording(reads):
            self._round(1, COUNTED_FRAMES)
        return reads.bytes

    def memory(self) -> dict[str, int]:
        """Returns bytes of weights, of KV pages, of all that the engine allocated, and the peak of the process."""
        workers, kv = self.engine.pipeline.workers, 0
        for stage in self.engine.spec.pipeline:
            if stage.kind == "frame":
                dtype = pick_dtype(self.deployment.dtype, self.device)
                per_position = sum(layout.bytes_per_position(dtype) for layout in traits_of(workers[stage.name]).kv)
                limits = self.deployment.limits
                kv += per_position * limits.slots * limits.max_positions
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
        outcomes = [self._outcomes.get(timeout=TIMEOUT_S) for _ in requests]
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
            self._voice,
            language=self.plan.language,
            options=self.plan.options,
            seed=self._serial,
            max_frames=frames if self.subject.frames else None,
        )

    def _allocated(self) -> int:
        return torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else 0


def check_sound(speech: Speech) -> None:
    """Raises if the samples are silence or not finite: the speed of a broken model means nothing."""
    samples = np.concatenate([chunk.samples for chunk in speech], axis=1)
    if not np.isfinite(samples).all():
        raise GenerationFailed("the engine made samples that are not finite numbers.")
    if float(np.abs(samples).max()) < SILENCE:
        raise GenerationFailed("the engine made silence.")
