"""A warm-up reports what a model made of its sentence; only a stage that fails ends the start."""

import logging
from dataclasses import replace

import pytest
import torch

from rhapsode.config import Deployment, resolve
from rhapsode.engine import StageFailed
from rhapsode.errors import Busy, EmptyAudio, GenerationFailed, InvalidRequest, Runaway, TimedOut
from rhapsode.models.dummy.codec import DummyCodec
from rhapsode.models.dummy.prompt import DummyPrepare
from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.registry import Model
from rhapsode.serve.warm_up import WARM_UP_TEXT, open_warm
from rhapsode.types import SpeechRequest

VERDICTS = [
    EmptyAudio("the model ended without saying anything."),
    Runaway("no end within 16 frames."),
    GenerationFailed("the model's output is not finite."),
    InvalidRequest("the prompt needs 900 positions, and only 512 fit."),
    Busy("8 requests are waiting already."),
    TimedOut("the audio was not read for 60 s."),
]
FAULTS = [
    torch.OutOfMemoryError("tried to allocate 2 GiB"),
    RuntimeError("a kernel does not compile"),
]


class FailingPrepare(DummyPrepare):
    """Fails on the sentence of the warm-up, or only on those of its second batch."""

    error: Exception
    marks = ""

    def __call__(self, request):
        if WARM_UP_TEXT in request.text and request.text.startswith(self.marks):
            raise self.error
        return super().__call__(request)


class FailingCodec(DummyCodec):
    error: Exception

    def decode(self, window, rows, state):
        raise self.error


def model(stage: str, failing: type) -> Model:
    made = f"{__name__}:{failing.__name__}"
    stages = (replace(one, factory=made) if one.name == stage else one for one in SPEC.pipeline)
    return Model(replace(SPEC, pipeline=tuple(stages)), None, {})


@pytest.fixture
def deployment() -> Deployment:
    limits = {"max_concurrency": 4, "max_positions": 512}
    return resolve(env={}, flags={"model": "dummy", "device": "cpu", "threads": 1, "limits": limits})


@pytest.mark.parametrize("marks", ["", "1 0", "4 2"], ids=["every sentence", "the first", "one of a batch"])
@pytest.mark.parametrize("error", VERDICTS, ids=lambda error: type(error).__name__)
def test_what_a_sentence_comes_to_is_one_line_of_the_log(
    deployment: Deployment,
    error: Exception,
    marks: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(FailingPrepare, "error", error, raising=False)
    monkeypatch.setattr(FailingPrepare, "marks", marks)
    caplog.set_level(logging.WARNING, "rhapsode.serve")
    engine = open_warm(model("prepare", FailingPrepare), deployment)
    try:
        (line,) = caplog.records
        assert line.fields["code"] == error.code
        assert error.message in line.fields["why"]
        with engine.submit(SpeechRequest("Hello.")) as speech:
            assert sum(chunk.samples.shape[1] for chunk in speech) > 0
    finally:
        engine.stop()


@pytest.mark.parametrize("stage", ["prepare", "vocode"])
@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
def test_a_fault_of_the_machine_ends_the_start_and_is_named(
    deployment: Deployment, error: Exception, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = {"prepare": FailingPrepare, "vocode": FailingCodec}[stage]
    monkeypatch.setattr(failing, "error", error, raising=False)
    with pytest.raises(StageFailed, match=rf"'{stage}' stage failed .*{type(error).__name__}"):
        open_warm(model(stage, failing), deployment)
