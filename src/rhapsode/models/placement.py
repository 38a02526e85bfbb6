"""Decides where a stage runs, by one rule for every family."""

from __future__ import annotations

from rhapsode.config import Deployment, Placement
from rhapsode.models.base import ModelSpec, StageSpec


def place(stage: StageSpec, deployment: Deployment) -> tuple[str, str]:
    """Returns the device of a stage and its number format.

    The deployment's entry under `stages` decides. Without one, stages that work on an accelerator (frame, burst and
    stream stages, and those whose spec has `on_device`) run on the deployment's device, and all others on the CPU.
    """
    has_frames = stage.kind in ("frame", "burst", "stream")
    usual = deployment.device if has_frames or stage.on_device else "cpu"
    device = deployment.stages.get(stage.name, Placement()).device or usual
    if device == "cpu" and not has_frames:
        return "cpu", "float32"  # a pipeline without device stages needs no torch
    from rhapsode.device.place import pick_device, pick_dtype

    picked = pick_device(device)
    dtype = pick_dtype(deployment.dtype if has_frames else "float32", picked)
    return str(picked), str(dtype).removeprefix("torch.")


def begins(deployment: Deployment, device: str) -> bool:
    """Returns whether a talker may run a first step's pass with the prompt: where launches are captured, and what is
    computed may depend on the room that a launch has."""
    return deployment.graphs and not deployment.deterministic and not device.startswith("cpu")


def describe_places(spec: ModelSpec, deployment: Deployment) -> str:
    """Describes where the model runs, such as `cpu, float32`, and which stages run elsewhere."""
    placed = {stage.name: place(stage, deployment) for stage in spec.pipeline}
    main = next((stage for stage in spec.pipeline if stage.kind in ("frame", "burst", "generator")), spec.pipeline[-1])
    usual = placed[main.name]
    elsewhere = [
        f"{stage.name}: {', '.join(placed[stage.name])}"
        for stage in spec.pipeline
        if placed[stage.name] != usual and (stage.kind != "call" or stage.name in deployment.stages)
    ]
    weights = "" if deployment.weights == "auto" else f", {deployment.weights} weights"
    return "; ".join([", ".join(usual) + weights, *elsewhere])
