"""A dummy whose talker has a known pace: a frame takes some time, and each row some more."""

import time
from dataclasses import replace

from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.dummy.talker import DummyTalker

FRAME_S = 0.16
STEP_S, ROW_S = 0.008, 0.02
"""Five rows take 108 ms: within three quarters of the 160 ms that a frame plays."""


class SlowTalker(DummyTalker):
    def step(self, rows, state):
        time.sleep(STEP_S + ROW_S * len(rows.slots))
        return super().step(rows, state)


SLOW = replace(
    SPEC,
    name="slow-dummy",
    frame_hz=1 / FRAME_S,
    pipeline=tuple(
        replace(stage, factory=f"{__name__}:SlowTalker") if stage.name == "talk" else stage for stage in SPEC.pipeline
    ),
)
UNTRACED = {"graphs": False, "threads": 1, "device": "cpu"}  # a trace would not sleep
