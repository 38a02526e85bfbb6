"""A text that is too long for a checkpoint is spoken in parts, in one request."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contract.families.qwen3_tts import SUBJECTS
from rhapsode.errors import Aborted
from rhapsode.testing.subject import assert_all_free, hear, speak
from rhapsode.types import FinishReason
from tiny.qwen3_tts import Tiny, write

PARTS = ["Hello there. One two.", "Good morning to you.", "Yes, it is."]


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("tiny")
    write(folder, Tiny(kind="custom_voice", eos_gain=1.4))
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "longest_text": 24}))
    return replace(SUBJECTS[0], model=lambda: str(folder))


@pytest.fixture(scope="module")
def engine(subject):
    engine = subject.engine()
    yield engine
    engine.stop()


def test_parts_are_said_one_after_the_other(subject, engine) -> None:
    alone = [speak(engine, subject.request(part, seed=7 + i)) for i, part in enumerate(PARTS)]
    speech = engine.submit(subject.request(" ".join(PARTS)))
    whole = hear(speech)
    assert whole.shape[1] == sum(part.shape[1] for part in alone)
    assert subject.same(whole[:, : alone[0].shape[1]], alone[0])  # the codec goes on, so later samples are others
    assert speech.outcome is not None
    assert speech.outcome.frames * engine.pipeline.workers["vocode"].hop == whole.shape[1]
    assert_all_free(engine)


def test_text_that_comes_in_pieces_is_said_in_parts_too(subject, engine) -> None:
    speech = engine.submit(subject.request("", text_open=True))
    for word in " ".join(PARTS).split():
        speech.append(f"{word} ")
    speech.finish_text()
    assert hear(speech).shape[1] > 0
    assert_all_free(engine)


def test_the_frames_that_are_wanted_are_those_of_all_parts(subject, engine) -> None:
    first = speak(engine, subject.request(PARTS[0], seed=7)).shape[1] // engine.pipeline.workers["vocode"].hop
    speech = engine.submit(subject.request(" ".join(PARTS), max_frames=first + 1))
    hear(speech)
    assert speech.outcome is not None
    assert (speech.outcome.frames, speech.outcome.finish_reason) == (first + 1, FinishReason.LENGTH)


def test_parts_that_nobody_waits_for_are_not_said(subject, engine) -> None:
    speech = engine.submit(subject.request(" ".join(PARTS * 20)))
    assert speech.get(timeout_s=20) is not None
    speech.abort()
    with pytest.raises(Aborted):
        hear(speech)
    assert_all_free(engine)


def test_neighbours_and_parts_do_not_mix(subject, engine) -> None:
    requests = [subject.request(" ".join(PARTS[i:]), seed=i) for i in range(3)]
    alone = [speak(engine, request) for request in requests]
    together = [engine.submit(request) for request in requests * 2]
    for speech, expected in zip(together, alone * 2, strict=True):
        assert np.array_equal(hear(speech).shape, expected.shape)
    assert_all_free(engine)
