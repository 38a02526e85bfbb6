"""One rule says where stages run: those that work on an accelerator follow the deployment's device."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from rhapsode.config import Deployment, resolve
from rhapsode.models.base import StageSpec
from rhapsode.models.placement import place
from rhapsode.models.registry import families
from unit.command import python

PREPARE = StageSpec("prepare", "call", "m:f")
ENCODE = replace(PREPARE, name="encode", on_device=True)
TALK = replace(PREPARE, name="talk", kind="frame")
SPEAK = replace(PREPARE, name="speak", kind="generator")


@pytest.fixture(params=[0, 2], ids=["without a GPU", "with two GPUs"])
def gpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: request.param)
    return request.param


def deployment(**settings: Any) -> Deployment:
    return resolve(env={}, flags=settings)


def test_auto_is_the_first_gpu_for_all_that_work_on_one(gpus: int) -> None:
    expected = "cuda:0" if gpus else "cpu"
    assert place(TALK, deployment()) == (expected, "bfloat16" if gpus else "float32")
    assert place(ENCODE, deployment()) == (expected, "float32")


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1"])
@pytest.mark.parametrize("stage", [PREPARE, SPEAK])
def test_other_stages_are_on_the_cpu_whatever_the_deployment_says(gpus: int, stage: StageSpec, device: str) -> None:
    assert place(stage, deployment(device=device)) == ("cpu", "float32")


def test_a_device_that_is_named_is_taken_by_encoders_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert place(ENCODE, deployment(device="cuda:1")) == ("cuda:1", "float32")
    assert place(ENCODE, deployment(device="cuda", dtype="float16")) == ("cuda:0", "float32")
    assert place(TALK, deployment(device="cuda:1", dtype="float16")) == ("cuda:1", "float16")
    assert place(ENCODE, deployment(device="cpu")) == ("cpu", "float32")


def test_a_stage_of_the_deployment_is_placed_where_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    placed = deployment(stages={"prepare": {"device": "cuda:1"}, "encode": {"device": "cpu"}, "talk": {"workers": 2}})
    assert place(PREPARE, placed) == ("cuda:1", "float32")
    assert place(ENCODE, placed) == ("cpu", "float32")
    assert place(TALK, placed) == ("cuda:0", "bfloat16")


@pytest.mark.parametrize("family", ["qwen3-tts", "voxcpm2"])
def test_encoders_of_references_want_the_accelerator_and_prepare_does_not(family: str) -> None:
    wants = {stage.name: stage.on_device for stage in families()[0][family].pipeline if stage.kind == "call"}
    assert wants == {"prepare": False, "encode": True}


def test_placing_a_stage_on_the_cpu_needs_no_torch(tmp_path) -> None:
    code = (
        "import sys; from rhapsode.config import Deployment; from rhapsode.models.base import StageSpec;"
        "from rhapsode.models.placement import place;"
        "print(place(StageSpec('a', 'call', 'm:f'), Deployment()), 'torch' in sys.modules)"
    )
    assert python(code, tmp_path).split(")")[-1].strip() == "False"
