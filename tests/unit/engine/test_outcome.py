"""Whoever wants to know how requests end may fail: requests end all the same."""

from rhapsode.config import resolve
from rhapsode.engine import Engine
from rhapsode.models.dummy.spec import SPEC
from rhapsode.types import FinishReason, Outcome, SpeechRequest

DEPLOYMENT = resolve(
    env={}, flags={"device": "cpu", "graphs": False, "limits": {"max_concurrency": 1, "max_positions": 128}}
)


def test_a_request_ends_although_its_outcome_cannot_be_reported(caplog) -> None:
    def fail(outcome: Outcome) -> None:
        raise OSError("no space left on device")

    with Engine(SPEC, DEPLOYMENT, on_outcome=fail) as engine:
        for _ in range(2):  # there is one slot: the second request needs that of the first
            speech = engine.submit(SpeechRequest("Hello.", seed=1))
            assert sum(chunk.samples.shape[1] for chunk in speech) == 6 * 1280
            assert speech.outcome is not None
            assert speech.outcome.finish_reason is FinishReason.STOP
    assert "could not be reported" in caplog.text
