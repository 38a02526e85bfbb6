"""A sentence that is not spoken with one seed is a warning; with none of several, the checkpoint has failed."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from rhapsode.config import resolve
from rhapsode.errors import EmptyAudio, Runaway
from rhapsode.models.dummy.prompt import DummyPrepare
from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.registry import Model
from rhapsode.tts import TTS
from rhapsode.verify.finding import CheckResult
from rhapsode.verify.speech import check_speech


class FailingPrepare(DummyPrepare):
    """Fails with these seeds."""

    seeds: Collection[int] = ()
    error: Exception

    def __call__(self, request):
        if request.seed in self.seeds:
            raise self.error
        return super().__call__(request)


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch):
    stages = [
        replace(one, factory=f"{__name__}:FailingPrepare") if one.name == "prepare" else one for one in SPEC.pipeline
    ]
    model = Model(replace(SPEC, pipeline=tuple(stages)), None, {})
    flags = {"model": "dummy", "device": "cpu", "threads": 1, "limits": {"max_concurrency": 1}}

    def speak(error: Exception, seeds: Collection[int]) -> CheckResult:
        monkeypatch.setattr(FailingPrepare, "error", error, raising=False)
        monkeypatch.setattr(FailingPrepare, "seeds", seeds)
        with TTS.opened(model, resolve(env={}, flags=flags)) as tts:
            return next(check_speech(tts, None, None, seed=1))

    return speak


@pytest.mark.parametrize("error", [EmptyAudio("nothing."), Runaway("no end.")], ids=lambda error: error.code)
def test_one_seed_without_speech_is_a_warning(spoken, error: Exception) -> None:
    found = spoken(error, [1])
    assert found.verdict == "warning"
    assert f"{error.code} with seed 1" in found.detail


def test_no_seed_with_speech_is_a_failure(spoken) -> None:
    found = spoken(EmptyAudio("nothing."), range(10))
    assert (found.verdict, found.detail) == ("failed", "empty_audio: nothing.")


def test_a_stage_that_breaks_is_a_failure_whatever_the_seed(spoken) -> None:
    found = spoken(ZeroDivisionError(), [1])
    assert found.verdict == "failed"
    assert "ZeroDivisionError" in found.detail
