"""Builds the stages that run on a device: their memory, the streams between them, their planners and sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rhapsode.config import Deployment
from rhapsode.device.memory import SlotMemory
from rhapsode.device.state import State
from rhapsode.device.stream import FrameStream
from rhapsode.engine.bell import Bell
from rhapsode.engine.budget import block_pages, fit
from rhapsode.engine.burst_stage import BurstStage
from rhapsode.engine.clock import ListenerClock
from rhapsode.engine.costs import ChunkCosts
from rhapsode.engine.device_stage import DeviceStage
from rhapsode.engine.frame_stage import FrameStage
from rhapsode.engine.goals import CPU, DETERMINISTIC, GPU
from rhapsode.engine.pace import Pace
from rhapsode.engine.planner import ChunkPlanner, Planner
from rhapsode.engine.relay import RelayPlanner
from rhapsode.engine.schedule import ChunkSchedule
from rhapsode.engine.sink import ListenerSink, Sink, StreamSink
from rhapsode.engine.stream_stage import StreamStage
from rhapsode.engine.wiring import senders, source_of
from rhapsode.errors import ConfigError
from rhapsode.models.base import SOURCES, ModelSpec, StageSpec, traits_of


@dataclass(frozen=True)
class Place:
    """Where a device stage runs, and in which number format."""

    device: torch.device
    dtype: torch.dtype


class DeviceStages:
    """The chain of device stages of a pipeline, from the talker or burst to the stage that makes the audio."""

    def __init__(
        self,
        spec: ModelSpec,
        workers: Mapping[str, Any],
        place: Callable[[StageSpec], tuple[str, str]],
        deployment: Deployment,
        endless: bool,
    ) -> None:
        self._spec = spec
        self._workers = workers
        self._endless = endless
        self._chain = [stage for stage in spec.pipeline if stage.kind in (*SOURCES, "stream")]
        self._places = {s.name: Place(torch.device(d), getattr(torch, t)) for s in self._chain for d, t in [place(s)]}
        self.deployment = self._fit(deployment)
        self.loops = {stage.name: self._loop(stage) for stage in self._chain}
        """Which loop gives a stage its turns."""
        self.bells = {name: Bell() for name in self.loops.values()}
        """What wakes each loop."""
        self._clock = ListenerClock(self.deployment.limits.slots)
        self._talker_pace = Pace()
        self._schedules = {s.name: self._schedule(s) for s in self._chain if s.kind == "stream"}
        self._streams = {s.name: self._stream_into(s) for s in self._chain if s.kind == "stream"}
        self.stages: dict[str, DeviceStage[Any]] = {stage.name: self._build(stage) for stage in self._chain}

    def device(self, name: str) -> torch.device:
        return self._places[name].device

    def _loop(self, stage: StageSpec) -> str:
        """Returns the name of a stage's loop.

        The stages of a GPU share one loop, which launches work and never waits for it. On a CPU a launch does the work
        itself. So the stages get loops of their own to work in parallel, unless launches run eagerly: then they would
        wait for Python's lock.
        """
        device = self._places[stage.name].device
        return stage.name if device.type == "cpu" and self.deployment.graphs else str(device)

    def _bell(self, stage: StageSpec) -> Bell:
        return self.bells[self.loops[stage.name]]

    # --- sizes ---

    def _fit(self, deployment: Deployment) -> Deployment:
        """Returns the deployment with the numbers of slots and pages that fit into memory."""
        source = self._places[next(stage.name for stage in self._chain if stage.kind in SOURCES)]
        here = [stage for stage in self._chain if self._places[stage.name].device == source.device]
        with_slots = [stage for stage in here if stage.kind != "burst"]  # a burst keeps nothing in slots
        workers = [(self._workers[stage.name], self._rate(stage)) for stage in with_slots]
        return fit(deployment, workers, source.device, source.dtype)

    def _rate(self, stage: StageSpec) -> int:
        """Returns how many frames the stage makes of one input frame."""
        return int(self._workers[stage.name].rate) if stage.kind == "stream" and stage.stream_to else 1

    def _rate_before(self, stage: StageSpec) -> int:
        """Returns how many frames of the stage's input belong to one frame of the talker or burst."""
        if stage.kind in SOURCES:
            return 1
        source = source_of(self._spec, stage)
        return self._rate_before(source) * self._rate(source)

    def _frame_s(self, stage: StageSpec) -> float:
        """Returns how many seconds of audio a frame becomes: an input frame, or one made of prompts."""
        last = next(stage for stage in self._chain if not stage.stream_to)
        hops = self._rate_before(last) / self._rate_before(stage)
        return float(hops * self._workers[last.name].hop / self._spec.sample_rate)

    def _schedule(self, stage: StageSpec) -> ChunkSchedule:
        reach = self._workers[stage.name].reach
        captured = self.deployment.graphs and self._places[stage.name].device.type == "cuda"
        per_frame = self._rate_before(stage) / reach.granularity
        return ChunkSchedule(self.deployment.chunks, captured or self.deployment.deterministic, per_frame)

    def _stream_into(self, stage: StageSpec) -> FrameStream:
        """Makes the stream that a stage reads, as large as the deployment says and its launches need."""
        chunks, reach = self.deployment.chunks, self._workers[stage.name].reach
        if chunks.ring <= chunks.largest:
            raise ConfigError(f"chunks.ring must be more than {chunks.largest}, the largest chunk.")
        source = source_of(self._spec, stage)
        maker, burst = self._workers[source.name], self._rate(source)
        if source.kind == "stream":
            burst *= maker.reach.granularity * self._schedules[source.name].ladder[-1]
        needed = self._schedules[stage.name].ladder[-1] * reach.granularity + reach.context + burst
        capacity = max(chunks.ring * self._rate_before(stage), needed)
        slots, device = self.deployment.limits.slots, self._places[source.name].device
        return FrameStream(
            slots,
            capacity,
            maker.frame_shape,
            maker.frame_dtype,
            device,
            reach,
            on_written=self._bell(stage).ring,
            on_released=self._bell(source).ring,
            lead=self._lead(stage),
        )

    def _lead(self, stage: StageSpec) -> int:
        """Returns how many frames a talker may be ahead of the first chunk; 0: any number."""
        worker = self._workers[stage.name]
        granularity: int = worker.reach.granularity
        return self._schedules[stage.name].first * granularity if traits_of(worker).takes_all_cores else 0

    # --- stages ---

    def _build(self, stage: StageSpec) -> DeviceStage[Any]:
        worker = self._workers[stage.name]
        if stage.kind == "frame":
            streams = [self._streams[name] for name in stage.stream_to]
            made_of = (stage.name, self._bell(stage), worker, streams, self.deployment, self._memory(stage))
            talker = FrameStage(*made_of, endless=self._endless, frame_s=self._frame_s(stage))
            self._talker_pace = talker.pace
            return talker
        if stage.kind == "burst":
            streams = [self._streams[name] for name in stage.stream_to]
            made_of = (stage.name, self._bell(stage), worker, streams, self.deployment, self._memory(stage))
            return BurstStage(*made_of, self._clock, self._frame_s(stage))
        return StreamStage(
            stage.name,
            self._bell(stage),
            worker,
            self._streams[stage.name],
            self._sink(stage),
            self._planner(stage),
            self._schedules[stage.name].ladder,
            self.deployment,
            self._memory(stage),
            rate=self._rate(stage),
            needs_payload=bool(senders(self._spec, stage)) and not stage.accepts_early_stream,
            frame_s=self._frame_s(stage),
            stream=self._cuda_stream(stage),
        )

    def _cuda_stream(self, stage: StageSpec) -> torch.cuda.Stream | None:
        """On a GPU, returns a CUDA stream for a stage, with a higher priority than the streams of the stages before it.

        Work nearest to a listener goes first. The CUDA streams need not wait for each other: a frame the host knows of
        has been written, unless it was committed ahead, and it is overwritten only once it has been read.
        """
        device = self._places[stage.name].device
        return torch.cuda.Stream(device, priority=-self._chain.index(stage)) if device.type == "cuda" else None

    def _memory(self, stage: StageSpec) -> SlotMemory:
        place, worker, rate = self._places[stage.name], self._workers[stage.name], self._rate(stage)
        limits, memory = self.deployment.limits, self.deployment.memory
        page_size, positions = memory.page_size, limits.max_positions * rate
        pages = None if memory.pages is None else memory.pages * rate
        if (of_blocks := traits_of(worker).pages) is not None:
            others = [self._workers[other.name] for other in self._chain if other.kind == "stream"]
            page_size, positions = of_blocks
            pages = block_pages(worker, others, limits.slots, place.device, place.dtype, memory.share)
        return SlotMemory(
            limits.slots,
            traits_of(worker).kv,
            State() if stage.kind == "burst" else worker.state(limits.slots),
            place.device,
            place.dtype,
            page_size=page_size,
            pages=pages,
            positions_per_slot=positions,
            on_join=self._rewind(stage),
        )

    def _rewind(self, stage: StageSpec) -> Callable[[Tensor], None] | None:
        """Returns what starts a slot's stream anew when a request joins, for stages where it joins with its stream."""
        if stage.kind != "stream" or traits_of(self._workers[stage.name]).kv:
            return None
        source = self._streams[stage.name]
        return lambda slots: source.rewind(slots.to(source.device))

    def _sink(self, stage: StageSpec) -> Sink:
        if stage.stream_to:
            return StreamSink(self._streams[stage.stream_to[0]], self._rate(stage))
        codec, limits = self._workers[stage.name], self.deployment.limits
        return ListenerSink(limits.slots, codec.hop, codec.channels, self._spec.sample_rate, self._clock, limits)

    def _planner(self, stage: StageSpec) -> Planner:
        deployment, schedule = self.deployment, self._schedules[stage.name]
        granularity = self._workers[stage.name].reach.granularity
        if stage.stream_to:
            return RelayPlanner(schedule, self._clock, one_block=deployment.deterministic or granularity > 1)
        on_cpu = self._places[stage.name].device.type == "cpu"
        block_s = granularity * self._workers[stage.name].hop / self._spec.sample_rate
        if deployment.deterministic:  # no measurement has a say
            goals, costs = DETERMINISTIC, ChunkCosts(block_s)
        else:
            goals, costs = (CPU if on_cpu else GPU), ChunkCosts(block_s, self._talker_pace, inline=on_cpu)
        return ChunkPlanner(deployment.limits.slots, schedule, deployment.chunks, goals, costs, self._clock)
