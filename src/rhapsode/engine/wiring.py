"""The edges of a pipeline: which stage sends to which, and checks that this is valid."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rhapsode.engine.job import Job
from rhapsode.engine.stage import Stage, Work
from rhapsode.errors import ConfigError, did_you_mean
from rhapsode.models.base import SOURCES, TRAITS_OF, ModelSpec, StageSpec, traits_of

KINDS = ("call", "frame", "burst", "stream", "generator")
MEMBERS = {
    "frame": ("frame_shape", "frame_dtype", "defaults", "state", "step"),
    "burst": ("frame_shape", "frame_dtype", "launch_size", "size", "burst"),
    "stream": ("reach", "state", "decode"),
    "call": ("__call__",),
    "generator": ("speak",),
}
"""What the worker of a stage must have, by the stage's kind."""


def senders(spec: ModelSpec, stage: StageSpec) -> tuple[str, ...]:
    """Returns the names of the stages that send payloads to this one."""
    return tuple(other.name for other in spec.pipeline if stage.name in other.next)


def source_of(spec: ModelSpec, stage: StageSpec) -> StageSpec:
    """Returns the stage whose frames a stream stage reads."""
    return next(other for other in spec.pipeline if stage.name in other.stream_to)


class Junction:
    """The entry of a stage. Payloads of several senders wait here until all have come, and go in as a dict."""

    def __init__(self, stage: Stage, senders: tuple[str, ...]) -> None:
        self._stage = stage
        self._senders = senders
        self._payloads: dict[tuple[str, int], dict[str, Any]] = {}
        self._lock = threading.Lock()

    @property
    def merges(self) -> bool:
        """Whether payloads of several stages wait for each other here."""
        return len(self._senders) > 1

    def entry(self, sender: str) -> Callable[[Work], None]:
        if not self.merges:
            return self._stage.receive

        def receive(work: Work) -> None:
            key = (work.job.id, work.part)
            with self._lock:
                payloads = self._payloads.setdefault(key, {})
                payloads[sender] = work.payload
                if len(payloads) < len(self._senders):
                    return
                del self._payloads[key]
            self._stage.receive(Work(work.job, payloads, work.part))

        return receive

    def forget(self, job: Job) -> None:
        with self._lock:
            for key in [key for key in self._payloads if key[0] == job.id]:
                del self._payloads[key]


def check_wiring(spec: ModelSpec) -> None:
    """Raises unless the pipeline is a DAG of known stages with one stage that makes the audio."""
    stages = {stage.name: stage for stage in spec.pipeline}

    def broken(why: str) -> ConfigError:
        return ConfigError(f"the pipeline of {spec.name} is broken: {why}.")

    if len(stages) != len(spec.pipeline):
        raise broken("two stages have one name")
    for stage in spec.pipeline:
        if stage.kind not in KINDS:
            hint = did_you_mean(stage.kind, KINDS)
            raise broken(f"stage '{stage.name}' is of unknown kind '{stage.kind}' ({hint.rstrip('.')})")
        for name in (*stage.next, *stage.stream_to):
            if name not in stages:
                raise broken(f"stage '{stage.name}' sends to '{name}', which does not exist")
        for name in stage.stream_to:
            if stage.kind not in (*SOURCES, "stream") or stages[name].kind != "stream":
                wrong = f"not from '{stage.name}' ({stage.kind}) to '{name}' ({stages[name].kind})"
                raise broken(f"frames go from a frame, burst or stream stage to a stream stage, {wrong}")
        if stage.kind == "burst" and not stage.stream_to:
            raise broken(f"burst stage '{stage.name}' streams to no stage: name one in 'stream_to'")
        if stage.kind == "stream" and len(stage.stream_to) > 1:
            raise broken(f"stream stage '{stage.name}' streams to more than one stage")
        streams_in = [s.name for s in spec.pipeline if stage.name in s.stream_to]
        if stage.kind == "stream" and len(streams_in) != 1:
            raise broken(f"stream stage '{stage.name}' needs exactly one stage that streams to it")
    sources = [s for s in spec.pipeline if s.kind in SOURCES]
    if len(sources) > 1 and any(s.kind == "burst" for s in sources):
        raise broken(f"stages {' and '.join(s.name for s in sources)} make frames of prompts, but one must do it")
    speaking = [s.name for s in spec.pipeline if s.kind == "generator" or (s.kind == "stream" and not s.stream_to)]
    if len(speaking) != 1:
        raise broken("exactly one stream or generator stage must make the audio")
    _check_order(stages, broken)


def check_worker(spec: ModelSpec, stage: StageSpec, worker: Any) -> None:
    """Raises unless a worker has what its stage's kind needs, and its traits are of that kind and all named."""

    def broken(why: str) -> ConfigError:
        return ConfigError(
            f"the pipeline of {spec.name} is broken: stage '{stage.name}' is of kind '{stage.kind}', {why}."
        )

    public = [name for name in dir(worker) if not name.startswith("_")]
    for name in MEMBERS[stage.kind]:
        if not hasattr(worker, name):
            raise broken(f"but its worker has no '{name}' ({did_you_mean(name, public).rstrip('.')})")
    possible, said = TRAITS_OF[stage.kind], traits_of(worker).names()
    for name in said:
        if name not in possible:
            raise broken(f"which makes no use of the trait '{name}'")
    for name in possible:
        if name in public and name not in said and getattr(worker, name):
            raise broken(f"and its worker has '{name}', but its traits do not name it: Traits({name}=self.{name})")
    if stage.kind == "frame" and "prefill" not in said:
        raise broken("but its worker has no traits 'kv' and 'prefill'")
    if stage.embeds and "embed" not in said:
        raise broken("and embeds, but its worker has no trait 'embed'")


def _check_order(stages: dict[str, StageSpec], broken: Callable[[str], ConfigError]) -> None:
    checked: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise broken(f"stages {' -> '.join((*path, name))} form a circle")
        if name not in checked:
            for following in (*stages[name].next, *stages[name].stream_to):
                visit(following, (*path, name))
            checked.add(name)

    for name in stages:
        visit(name, ())
