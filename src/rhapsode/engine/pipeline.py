"""A family's pipeline, built: stages made by their factories, edges wired, loops started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rhapsode import loading
from rhapsode.checkpoints.blame import blaming
from rhapsode.config import DEFAULT_SLOTS, Deployment, Placement
from rhapsode.engine.bell import Bell
from rhapsode.engine.call_stage import CallStage
from rhapsode.engine.generator_stage import GeneratorStage
from rhapsode.engine.job import Job
from rhapsode.engine.loop import Loop, Underway
from rhapsode.engine.pace import SlowestPace
from rhapsode.engine.source import Source
from rhapsode.engine.stage import Resume, Stage, Text, TurnStage, Usage, Work
from rhapsode.engine.wiring import Junction, check_wiring, check_worker, senders
from rhapsode.models.base import SOURCES, ModelSpec, StageContext, StageSpec
from rhapsode.models.companions import find_companions
from rhapsode.models.deployment_check import stage_problems
from rhapsode.models.lazy import import_name
from rhapsode.models.placement import begins, place
from rhapsode.models.settings import parse_settings
from rhapsode.voices.cache import ReferenceCache


class Pipeline:
    """All stages of one model, connected in order. Requests are sent to the first one."""

    def __init__(
        self,
        spec: ModelSpec,
        source: Source,
        deployment: Deployment,
        before_memory: Callable[[], None] = lambda: None,
    ) -> None:
        """`before_memory` is called after the weights are loaded and before the free memory is measured."""
        check_wiring(spec)
        for problem in stage_problems(spec, deployment):
            raise problem.error
        self._spec = spec
        self._source = source
        self._settings = parse_settings(spec, deployment.options)
        self._companions = find_companions(spec, source.checkpoint, deployment.companions, source.config)
        self.deployment = deployment
        self.references = ReferenceCache(deployment.memory.reference_bytes)
        self.stages: dict[str, Stage] = {}
        self._loops: dict[str, list[TurnStage]] = {}
        self._bells: dict[str, Bell] = {}
        with blaming(source.checkpoint):
            self.workers = {stage.name: self._make(stage) for stage in spec.pipeline}
            before_memory()
            if spec.source is not None:
                self._build_on_device()
            else:
                self.deployment = deployment.fixed(slots=DEFAULT_SLOTS, pages=None)
        for stage in spec.pipeline:
            if stage.name not in self.stages:
                self.stages[stage.name] = self._build(stage)
        self._junctions = {s.name: Junction(self.stages[s.name], senders(spec, s)) for s in spec.pipeline}
        self._merging = [junction for junction in self._junctions.values() if junction.merges]
        self._entries = [self.stages[s.name] for s in spec.pipeline if s.kind != "stream" and not senders(spec, s)]
        self._wire()
        self._running = [Loop(name, self._bells[name], stages) for name, stages in self._loops.items()]

    def start(self) -> None:
        for name, stage in self.stages.items():
            loading.report(f"start of {name}")
            stage.start()
        loading.done()
        for loop in self._running:
            loop.start()

    def stop(self) -> None:
        for loop in self._running:
            loop.stop()
        for stage in self.stages.values():
            stage.stop()

    def enter(self, work: Work) -> None:
        """Sends a request, or the rest of a long one, to the first stages: those that wait for no other stage."""
        for stage in self._entries:
            stage.receive(work)

    def text(self, job: Job, text: str, final: bool) -> None:
        """Sends more text of a running job to the stages that take text; `final`: no more will come."""
        for stage in self._spec.pipeline:
            if stage.takes_text:
                self.stages[stage.name].inbox.put(Text(job, text, final))

    def resume(self, job: Job) -> None:
        """Tells the stages that speak that more text of a job has arrived, so that they ask for its next prompt."""
        for stage in self._spec.pipeline:
            if stage.kind in (*SOURCES, "generator"):
                self.stages[stage.name].inbox.put(Resume(job))

    def forget(self, job: Job) -> None:
        """Makes every stage drop a job that is over."""
        for junction in self._merging:
            junction.forget(job)
        for stage in self.stages.values():
            stage.abort(job)

    def slow_turns(self) -> dict[str, int]:
        """Returns, for each stage, how many of its turns took over 50 ms (`loop.SLOW_S`).

        A turn is one pass of the device loop through a stage. All listeners of that device wait for it.
        """
        return {name: count for loop in self._running for name, count in loop.slow_turns.items()}

    def longest_turns_s(self) -> dict[str, float]:
        """Returns the seconds that the longest turn of each stage took."""
        return {name: longest_s for loop in self._running for name, longest_s in loop.longest_turns_s.items()}

    def forget_turns(self) -> None:
        """Sets the counts of slow turns and the longest turns back to none, as after a warm-up."""
        for loop in self._running:
            loop.forget_turns()

    def unfinished(self) -> list[Underway]:
        """Returns the turns and launches that have begun and not ended."""
        return [step for loop in self._running for step in loop.unfinished()]

    @property
    def uses_cores(self) -> bool:
        """Whether a stage computes on a CPU, whose cores other programs use, too."""
        return any(stage.works_inline for stage in self.stages.values() if isinstance(stage, TurnStage))

    def pace(self, on_change: Callable[[], None]) -> SlowestPace:
        """Returns the measured pace of all stages together, and has `on_change` called when it changes."""
        paces = [stage.pace for stage in self.stages.values() if isinstance(stage, TurnStage)]
        for pace in paces:
            pace.on_change = on_change
        return SlowestPace(paces)

    def usage(self) -> Usage:
        """Returns how many KV pages the talker uses and how many frames it has made; zeros without a talker."""
        stages = [stage for stage in self.stages.values() if isinstance(stage, TurnStage)]
        return next((usage for stage in stages if (usage := stage.usage()) != Usage()), Usage())

    # --- building ---

    def _make(self, stage: StageSpec) -> Any:
        loading.report(stage.name)
        device, dtype = self._place(stage)
        worker = import_name(stage.factory)(
            StageContext(
                spec=self._spec,
                checkpoint=self._source.checkpoint,
                config=self._source.config,
                device=device,
                dtype=dtype,
                references=self.references,
                weights=self.deployment.weights if stage.kind in SOURCES else "auto",
                random_weights=self.deployment.random_weights,
                settings=self._settings,
                companions=self._companions,
                begins=begins(self.deployment, device),
            )
        )
        check_worker(self._spec, stage, worker)
        return worker

    def _place(self, stage: StageSpec) -> tuple[str, str]:
        return place(stage, self.deployment)

    def _placement(self, stage: StageSpec) -> Placement:
        return self.deployment.stages.get(stage.name, Placement())

    def _build(self, stage: StageSpec) -> Stage:
        worker = self.workers[stage.name]
        if stage.kind == "call":
            placement = self._placement(stage)
            batch = min(placement.batch or stage.batch, stage.batch)
            return CallStage(stage.name, worker, placement.workers or stage.workers, batch, self._inside(stage))
        timeout_s = self.deployment.limits.unread_timeout_s
        bell = self._bells[stage.name] = Bell()
        generator = GeneratorStage(stage.name, bell, worker, self._spec.sample_rate, timeout_s, self._spec.channels)
        self._loops[stage.name] = [generator]
        return generator

    def _inside(self, stage: StageSpec) -> Callable[[], AbstractContextManager[Any]]:
        device, _ = self._place(stage)
        if device == "cpu":
            return nullcontext
        from rhapsode.device.place import own_stream
        from rhapsode.nn import kernels

        stream = own_stream(device)

        @contextmanager
        def inside() -> Iterator[None]:
            # References come in all lengths: a kernel for each would be compiled while listeners wait.
            with stream(), kernels.use("off"):
                yield

        return inside

    def _build_on_device(self) -> None:
        """Builds the chain of device stages. A launch of a burst may use all cores: it is by far the longest."""
        loading.report("slots and memory")
        from rhapsode.device.place import use_threads
        from rhapsode.engine.build import DeviceStages
        from rhapsode.engine.burst_stage import BurstStage

        endless = self.deployment.random_weights or self._source.endless
        chain = DeviceStages(self._spec, self.workers, self._place, self.deployment, endless)
        self.deployment = chain.deployment
        on_cpu = sum(chain.device(name).type == "cpu" for name in chain.stages)
        shared = self.deployment.graphs and not any(isinstance(stage, BurstStage) for stage in chain.stages.values())
        use_threads(self.deployment.threads, (on_cpu if shared else 1) if on_cpu else None)
        for name, stage in chain.stages.items():
            self._loops.setdefault(chain.loops[name], []).append(stage)
        self._bells.update(chain.bells)
        self.stages.update(chain.stages)

    def _wire(self) -> None:
        for stage in self._spec.pipeline:
            outbox = self.stages[stage.name].outbox
            outbox.payload_to = [self._junctions[name].entry(stage.name) for name in stage.next]
            outbox.frames_to = [self.stages[name].inbox for name in stage.stream_to]
            outbox.entry = self.enter
