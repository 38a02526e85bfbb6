"""A family's pipeline, built: stages made by their factories, edges wired, loops started."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhapsode.config import DEFAULT_SLOTS, Deployment, Placement
from rhapsode.engine.call_stage import CallStage
from rhapsode.engine.generator_stage import GeneratorStage
from rhapsode.engine.job import Job
from rhapsode.engine.loop import Loop
from rhapsode.engine.stage import Inbox, Stage, Text, TurnStage, Usage, Work
from rhapsode.errors import ConfigError, did_you_mean
from rhapsode.models.base import ModelSpec, StageContext, StageSpec
from rhapsode.voices.cache import ReferenceCache


@dataclass(frozen=True)
class Source:
    """What the stages are made from: a checkpoint's folder, if any, and its configuration."""

    checkpoint: Path | None
    config: Mapping[str, Any]
    random_weights: bool = False
    """The weights are random, and so is where speech would end: no request ends before its limit."""
    endless: bool = False
    """No request ends before its limit, whatever the weights say: a measurement counts frames."""


class Junction:
    """The way into a stage that several others send payloads to: it gets them together, by sender."""

    def __init__(self, inbox: Inbox, senders: tuple[str, ...]) -> None:
        self._inbox = inbox
        self._senders = senders
        self._parts: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def entry(self, sender: str) -> Callable[[Job, Any], None]:
        def receive(job: Job, payload: Any) -> None:
            if len(self._senders) <= 1:
                self._inbox.put(Work(job, payload))
                return
            with self._lock:
                parts = self._parts.setdefault(job.id, {})
                parts[sender] = payload
                if len(parts) == len(self._senders):
                    self._inbox.put(Work(job, self._parts.pop(job.id)))

        return receive

    def forget(self, job: Job) -> None:
        with self._lock:
            self._parts.pop(job.id, None)


class Pipeline:
    """The stages of one family, ready to be sent requests."""

    def __init__(self, spec: ModelSpec, source: Source, deployment: Deployment) -> None:
        check_wiring(spec)
        for name in deployment.stages:
            if name not in {stage.name for stage in spec.pipeline}:
                hint = did_you_mean(name, (stage.name for stage in spec.pipeline))
                raise ConfigError(f"{spec.name} has no stage '{name}': {hint}")
        self._spec = spec
        self._source = source
        self.deployment = deployment
        self.references = ReferenceCache(deployment.memory.reference_bytes)
        self.stages: dict[str, Stage] = {}
        self._loops: dict[str, list[TurnStage]] = {}
        self.workers = {stage.name: self._make(stage) for stage in spec.pipeline}
        self.deployment = self._fit()
        for stage in sorted(spec.pipeline, key=lambda s: s.kind == "stream"):  # streams need their talker first
            self.stages[stage.name] = self._build(stage)
        self._junctions = {s.name: Junction(self.stages[s.name].inbox, senders(spec, s)) for s in spec.pipeline}
        self._wire()
        self._running = [Loop(place, stages) for place, stages in self._loops.items()]

    def start(self) -> None:
        for stage in self.stages.values():
            stage.start()
        for loop in self._running:
            loop.start()

    def stop(self) -> None:
        for loop in self._running:
            loop.stop()
        for stage in self.stages.values():
            stage.stop()

    def enter(self, job: Job) -> None:
        """Send a request to every stage that nobody else sends a payload to."""
        for stage in self._spec.pipeline:
            if stage.kind != "stream" and not senders(self._spec, stage):
                self.stages[stage.name].inbox.put(Work(job, job.request))

    def text(self, job: Job, text: str, final: bool) -> None:
        for stage in self._spec.pipeline:
            if stage.takes_text:
                self.stages[stage.name].inbox.put(Text(job, text, final))

    def forget(self, job: Job) -> None:
        """The job is over: every stage lets go of it."""
        for junction in self._junctions.values():
            junction.forget(job)
        for stage in self.stages.values():
            stage.abort(job)

    def usage(self) -> Usage:
        """Of the stage that talks, where there is one."""
        stages = [stage for stage in self.stages.values() if isinstance(stage, TurnStage)]
        return next((usage for stage in stages if (usage := stage.usage()) != Usage()), Usage())

    # --- building ---

    def _make(self, stage: StageSpec) -> Any:
        module, _, name = stage.factory.partition(":")
        factory = getattr(importlib.import_module(module), name)
        source, place = self._source, self._place(stage)
        weights = self.deployment.weights if stage.kind == "frame" else "auto"
        return factory(
            StageContext(self._spec, source.checkpoint, source.config, *place, self.references, weights=weights)
        )

    def _place(self, stage: StageSpec) -> tuple[str, str]:
        """The device a stage runs on, and its number format."""
        device = self._placement(stage).device or self.deployment.device
        if stage.kind not in ("frame", "stream"):
            return "cpu" if device == "auto" else device, "float32"
        from rhapsode.device.place import pick_device, pick_dtype  # only these stages need torch

        picked = pick_device(device)
        return str(picked), str(pick_dtype(self.deployment.dtype, picked)).removeprefix("torch.")

    def _placement(self, stage: StageSpec) -> Placement:
        return self.deployment.stages.get(stage.name, Placement())

    def _fit(self) -> Deployment:
        """The deployment, once what memory leaves room for is known."""
        talker = next((stage for stage in self._spec.pipeline if stage.kind == "frame"), None)
        if talker is None:
            return self.deployment.fixed(slots=DEFAULT_SLOTS, pages=None)
        import torch

        from rhapsode.engine.budget import fit

        device, dtype = self._place(talker)
        streams = [stage for stage in self._spec.pipeline if stage.kind == "stream" and self._place(stage)[0] == device]
        codecs = [self.workers[stage.name] for stage in streams]
        return fit(self.deployment, self.workers[talker.name], codecs, torch.device(device), getattr(torch, dtype))

    def _build(self, stage: StageSpec) -> Stage:
        worker = self.workers[stage.name]
        if stage.kind in ("frame", "stream"):
            return self._build_on_device(stage, worker)
        if stage.kind == "call":
            placement = self._placement(stage)
            batch = min(placement.batch or stage.batch, stage.batch)
            return CallStage(stage.name, worker, placement.workers or stage.workers, batch)
        generator = GeneratorStage(stage.name, worker, self._spec.sample_rate)
        self._loops[stage.name] = [generator]
        return generator

    def _build_on_device(self, stage: StageSpec, worker: Any) -> Stage:
        import torch

        from rhapsode.device.place import use_threads
        from rhapsode.engine.frame_stage import FrameStage
        from rhapsode.engine.stream_stage import StreamStage

        place, dtype = self._place(stage)
        device = torch.device(place)
        on_cpu = device.type == "cpu"
        use_threads(self.deployment.threads, self._loops_on_cpu() if on_cpu else None)
        built: TurnStage
        if stage.kind == "frame":
            endless = self._source.endless or self._source.random_weights
            built = FrameStage(stage.name, worker, self.deployment, device, getattr(torch, dtype), endless)
        else:
            source = next(s for s in self._spec.pipeline if stage.name in s.stream_to)
            talker = self.stages[source.name]
            assert isinstance(talker, FrameStage)
            stream = talker.frame_stream(self.deployment.limits.slots, self.deployment.chunks.ring)
            needs_payload = bool(senders(self._spec, stage)) and not stage.accepts_early_stream
            built = StreamStage(
                stage.name, worker, stream, self.deployment, device, self._spec.sample_rate, needs_payload
            )
            stream.on_written, stream.on_taken = built.wake, talker.wake
        # A GPU's stages share a loop, which launches and never waits. On a CPU a launch is the work: side by side it
        # is done sooner, unless both are held up by Python.
        self._loops.setdefault(stage.name if on_cpu and self.deployment.graphs else place, []).append(built)
        return built

    def _loops_on_cpu(self) -> int:
        if not self.deployment.graphs:
            return 1
        on_device = [stage for stage in self._spec.pipeline if stage.kind in ("frame", "stream")]
        return sum(self._place(stage)[0] == "cpu" for stage in on_device)

    def _wire(self) -> None:
        for stage in self._spec.pipeline:
            outbox = self.stages[stage.name].outbox
            outbox.payload_to = [self._junctions[name].entry(stage.name) for name in stage.next]
            outbox.frames_to = [self.stages[name].inbox for name in stage.stream_to]


def senders(spec: ModelSpec, stage: StageSpec) -> tuple[str, ...]:
    """The stages whose payload this one gets."""
    return tuple(other.name for other in spec.pipeline if stage.name in other.next)


def check_wiring(spec: ModelSpec) -> None:
    """A pipeline must be a DAG of known stages with one stage that makes the audio."""
    stages = {stage.name: stage for stage in spec.pipeline}

    def broken(why: str) -> ConfigError:
        return ConfigError(f"the pipeline of {spec.name} is broken: {why}.")

    if len(stages) != len(spec.pipeline):
        raise broken("two stages have one name")
    for stage in spec.pipeline:
        if stage.kind not in ("call", "frame", "stream", "generator"):
            raise broken(f"stage '{stage.name}' is of unknown kind '{stage.kind}'")
        for name in (*stage.next, *stage.stream_to):
            if name not in stages:
                raise broken(f"stage '{stage.name}' sends to '{name}', which does not exist")
        for name in stage.stream_to:
            if stage.kind != "frame" or stages[name].kind != "stream":
                raise broken(f"frames go from a frame stage to a stream stage, not from '{stage.name}' to '{name}'")
        streams_in = [s.name for s in spec.pipeline if stage.name in s.stream_to]
        if stage.kind == "stream" and len(streams_in) != 1:
            raise broken(f"stream stage '{stage.name}' needs exactly one stage that streams to it")
    speakers = [s.name for s in spec.pipeline if s.kind in ("stream", "generator")]
    if len(speakers) != 1:
        raise broken("exactly one stream or generator stage must make the audio")
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise broken(f"stages {' -> '.join((*path, name))} form a circle")
        if name not in order:
            for target in (*stages[name].next, *stages[name].stream_to):
                visit(target, (*path, name))
            order.append(name)

    for name in stages:
        visit(name, ())
