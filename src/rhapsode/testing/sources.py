"""The stage that makes the frames of a family under test: a talker or a burst."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from rhapsode.engine import Engine
from rhapsode.models.base import Measurement, StageSpec, traits_of


def source_of(engine: Engine) -> StageSpec:
    assert engine.spec.source is not None
    return engine.spec.source


def maker_of(engine: Engine) -> Any:
    """The worker of that stage."""
    return engine.pipeline.workers[source_of(engine).name]


def kind_of(engine: Engine) -> str:
    """The kind of the stage that makes the frames."""
    return source_of(engine).kind


def method_of(engine: Engine, name: str, stage: str | None = None) -> Callable[..., Any]:
    """What the engine calls for a method of a worker; by default of the one that makes the frames."""
    holder, attribute = _where(engine, name, stage)
    found = getattr(holder, attribute)
    return getattr(found, name) if attribute == "_traits" else found  # type: ignore[no-any-return]


def replace_method(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, made: Callable[..., Any], stage: str | None = None
) -> None:
    """Has the engine call another function in its place."""
    holder, attribute = _where(engine, name, stage)
    monkeypatch.setattr(holder, attribute, replace(holder._traits, **{name: made}) if attribute == "_traits" else made)


def _where(engine: Engine, name: str, stage: str | None) -> tuple[Any, str]:
    stage = stage or source_of(engine).name
    built: Any = engine.pipeline.stages[stage]
    worker = engine.pipeline.workers[stage]
    if name not in traits_of(worker).names():
        return worker, name
    if name == "prefill":
        return built._prefill, "_run"
    if name == "open":
        return built._open, "_open"
    return built._bursts if name in ("measure", "heard") else built, "_traits"


def never_end(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the talker go on for ever, or the burst make more of each prompt than its text can need."""
    worker = maker_of(engine)
    if kind_of(engine) == "frame":
        step = worker.step
        monkeypatch.setattr(worker, "step", lambda rows, state: step(rows, state)._replace(stopped=rows.slots < 0))
    elif (measure := traits_of(worker).measure) is not None:

        def longer(prompts: Sequence[Any], *rest: Any) -> Measurement:
            found: Measurement = measure(prompts, *rest)
            most = torch.tensor([[prompt.max_frames] for prompt in prompts], device=found.durations.device)
            return found._replace(durations=found.durations + most)

        replace_method(engine, monkeypatch, "measure", longer)
    else:
        burst = worker.burst

        def repeated(prompts: Sequence[Any], *rest: Any) -> list[torch.Tensor]:
            made = zip(prompts, burst(prompts, *rest), strict=True)
            return [torch.cat([frames] * (prompt.max_frames + 1)) for prompt, frames in made]

        replace_method(engine, monkeypatch, "burst", repeated)
