"""A request that starts among few others gets its first frame from the pass that was made with its prompt."""

import pytest

from contract.families.qwen3_tts import SUBJECTS
from rhapsode.testing.subject import assert_all_free, hear, speak

TEXTS = ("Hello there.", "Good morning to you.", "Yes, it is.")


@pytest.fixture(scope="module")
def engine():
    engine = SUBJECTS[0].engine(graphs=False)
    yield engine
    engine.stop()


@pytest.fixture
def launches(engine, monkeypatch: pytest.MonkeyPatch):
    """Has the engine begin in prefill, as on a GPU; lists the slots of launches that make first frames alone."""
    talker, made = engine.pipeline.workers["talk"], []
    make = talker.first_step

    def first_step(rows, state):
        made.append(rows.slots.tolist())
        return make(rows, state)

    monkeypatch.setattr(talker, "_begins", True)
    monkeypatch.setattr(talker._prompts, "_shapes", [(1, 64), (4, 64)])
    monkeypatch.setattr(engine.pipeline.stages["talk"]._on_device, "_first_step", first_step)
    return made


def test_what_is_heard_stays_the_same(engine, request: pytest.FixtureRequest) -> None:
    subject = SUBJECTS[0]
    alone = [speak(engine, subject.request(text)) for text in TEXTS]
    launches = request.getfixturevalue("launches")
    assert all(
        subject.same(speak(engine, subject.request(text)), wanted) for text, wanted in zip(TEXTS, alone, strict=True)
    )
    assert [len(slots) for slots in launches] == [1] * len(TEXTS)
    together = [engine.submit(subject.request(text)) for text in TEXTS]
    assert all(subject.same(hear(speech), wanted) for speech, wanted in zip(together, alone, strict=True))
    assert_all_free(engine)


def test_one_frame_is_all_that_was_asked_for(engine, launches) -> None:
    speech = engine.submit(SUBJECTS[0].request(TEXTS[0], max_frames=1))
    assert hear(speech).shape[1] == engine.pipeline.workers["vocode"].hop
    assert len(launches) == 1
    assert_all_free(engine)


def test_one_that_is_aborted_leaves_nothing_behind(engine, launches) -> None:
    for _ in range(4):
        speech = engine.submit(SUBJECTS[0].request(TEXTS[1]))
        next(iter(speech))
        speech.abort()
    assert_all_free(engine)
    assert launches
