"""Dummies whose talker has a known pace: a frame takes some time, and each row some more."""

import time
from dataclasses import replace

from rhapsode.models.base import ModelSpec
from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.dummy.talker import DummyTalker

FRAME_S = 0.16
STEP_S, ROW_S = 0.008, 0.02
"""Four rows take 88 ms: within 0.6 of the 160 ms that a frame plays."""


class SlowTalker(DummyTalker):
    def step(self, rows, state):
        time.sleep(STEP_S + ROW_S * len(rows.slots))
        return super().step(rows, state)


class SteadyTalker(DummyTalker):
    """Sleeps until a frame is due, so that a frame takes as long whatever else the machine does between two of them."""

    HOST_S = 0.004
    """For the work between two frames. It keeps the pace away from those at which first chunks change their size."""
    LATE_S = 0.02
    """After a longer pause there was nothing to do."""
    _ended_s = 0.0

    def step(self, rows, state):
        now_s = time.perf_counter()
        started_s = self._ended_s if now_s - self._ended_s < self.LATE_S else now_s
        self._ended_s = started_s + self.HOST_S + STEP_S + ROW_S * len(rows.slots)
        made = super().step(rows, state)
        time.sleep(max(self._ended_s - time.perf_counter(), 0.0))
        return made


def _with_talker(name: str, talker: type) -> ModelSpec:
    factory = f"{__name__}:{talker.__name__}"
    pipeline = tuple(replace(stage, factory=factory) if stage.name == "talk" else stage for stage in SPEC.pipeline)
    return replace(SPEC, name=name, frame_hz=1 / FRAME_S, pipeline=pipeline)


SLOW = _with_talker("slow-dummy", SlowTalker)
STEADY = _with_talker("steady-dummy", SteadyTalker)
UNTRACED = {"graphs": False, "threads": 1, "device": "cpu"}  # a trace would not sleep
