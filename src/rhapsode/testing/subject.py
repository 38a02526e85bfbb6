"""What the contract suite needs to know of a family, and how its rules listen."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rhapsode.config import resolve
from rhapsode.engine import Engine, Source, Speech
from rhapsode.models.base import ModelSpec
from rhapsode.models.registry import find
from rhapsode.types import Outcome, Samples, SpeechRequest

DEVICE = os.environ.get("TEST_DEVICE", "cpu")
"""`TEST_DEVICE=cuda` holds a GPU to the same rules."""

LONG = DEVICE != "cpu" or "TEST_EXAMPLES" in os.environ
"""The long run (`TEST_EXAMPLES=24`, or a GPU): more of each rule."""


@dataclass(frozen=True)
class Subject:
    """A family under test."""

    name: str
    texts: tuple[str, ...]
    """Short utterances of different lengths, at least four."""
    variant: str = ""
    dtype: str = "float32"
    """Rounding may depend on the batch; in float64 it is too small to change a draw."""
    tolerance: float = 0.0
    model: Callable[[], str] | None = None
    """A checkpoint's folder, where the family needs one."""
    wishes: dict[str, Any] = field(default_factory=dict)
    max_positions: int = 1024
    segments: bool = False
    """A text is spoken in several segments: chunks end with them."""
    spec: ModelSpec | None = None
    """Another pipeline of the same family."""

    def engine(self, **settings: Any) -> Engine:
        """A running engine of this family; settings as in a deployment file."""
        settings.setdefault("limits", {})
        settings["limits"] = {"max_concurrency": 4, "max_positions": self.max_positions, **settings["limits"]}
        model = self.model() if self.model else self.name
        deployment = resolve(
            env={}, flags={"model": model, "device": DEVICE, "dtype": self.dtype, "threads": 1, **settings}
        )
        found = find(model)
        return Engine(self.spec or found.spec, deployment, Source(found.checkpoint, found.config)).start()

    def same(self, one: Samples, other: Samples) -> bool:
        """Equal sample for sample; to rounding, where the family says so: from a GPU, that is to a step of 16 bits."""
        tolerance = self.tolerance if DEVICE == "cpu" or not self.tolerance else max(self.tolerance, 1.01 / 32767)
        return one.shape == other.shape and float(np.abs(one - other).max(initial=0)) <= tolerance

    def request(self, text: str, **wishes: Any) -> SpeechRequest:
        return SpeechRequest(text, **{"seed": 7, **self.wishes, **wishes})


def frame_samples(engine: Engine) -> int:
    """Samples of one frame of the talker."""
    workers = engine.pipeline.workers
    rates = [workers[stage.name].rate for stage in engine.spec.pipeline if stage.kind == "stream" and stage.stream_to]
    return int(workers["vocode"].hop * math.prod(rates))


def is_plain(engine: Engine) -> bool:
    """Whether every stage after the talker works frame by frame, without looking around."""
    streaming = [stage.name for stage in engine.spec.pipeline if stage.kind == "stream"]
    return all(engine.pipeline.workers[name].reach.plain for name in streaming)


def hear(speech: Speech) -> Samples:
    """Everything a listener gets, checked to be deltas in order."""
    chunks = []
    while (chunk := speech.get(timeout_s=20)) is not None:
        chunks.append(chunk)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert all(chunk.samples.dtype == np.float32 for chunk in chunks)
    return np.concatenate([chunk.samples for chunk in chunks], axis=1)


def speak(engine: Engine, request: SpeechRequest) -> Samples:
    return hear(engine.submit(request))


def outcome_of(speech: Speech) -> Outcome:
    """How a request that is over went."""
    assert speech.outcome is not None
    return speech.outcome


def assert_all_free(engine: Engine, within_s: float = 5.0) -> None:
    """Nothing is held: no slot, no page, no queue place, in no stage."""
    give_up_s = time.monotonic() + within_s
    while time.monotonic() < give_up_s:
        load = engine.load()
        held = {
            name: jobs() for name, stage in engine.pipeline.stages.items() if (jobs := getattr(stage, "jobs", None))
        }
        if (load.slots_in_use, load.pages_in_use, load.queued) == (0, 0, 0) and not any(held.values()):
            return
        time.sleep(0.005)
    raise AssertionError(f"still held: {load}, {held}")
