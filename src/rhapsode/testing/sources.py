"""The stage that makes the frames of a family under test: a talker or a burst."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from rhapsode.engine import Engine
from rhapsode.models.base import Measurement, MeasuresFirst, StageSpec


def source_of(engine: Engine) -> StageSpec:
    assert engine.spec.source is not None
    return engine.spec.source


def maker_of(engine: Engine) -> Any:
    """The worker of that stage."""
    return engine.pipeline.workers[source_of(engine).name]


def kind_of(engine: Engine) -> str:
    """The kind of the stage that makes the frames."""
    return source_of(engine).kind


def never_end(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the talker go on for ever, or the burst make more of each prompt than its text can need."""
    worker = maker_of(engine)
    if kind_of(engine) == "frame":
        step = worker.step
        monkeypatch.setattr(worker, "step", lambda rows, state: step(rows, state)._replace(stopped=rows.slots < 0))
    elif isinstance(worker, MeasuresFirst):
        measure = worker.measure

        def longer(prompts: Sequence[Any], *rest: Any) -> Measurement:
            found: Measurement = measure(prompts, *rest)
            most = torch.tensor([[prompt.max_frames] for prompt in prompts], device=found.durations.device)
            return found._replace(durations=found.durations + most)

        monkeypatch.setattr(worker, "measure", longer)
    else:
        burst = worker.burst

        def repeated(prompts: Sequence[Any], *rest: Any) -> list[torch.Tensor]:
            made = zip(prompts, burst(prompts, *rest), strict=True)
            return [torch.cat([frames] * (prompt.max_frames + 1)) for prompt, frames in made]

        monkeypatch.setattr(worker, "burst", repeated)
