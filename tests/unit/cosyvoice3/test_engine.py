"""CosyVoice3 on the engine: long texts in parts, text while it speaks, and the settings of a deployment."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rhapsode.engine import Engine
from rhapsode.errors import ConfigError, EmptyAudio
from rhapsode.testing.subject import Subject, assert_all_free, hear, speak
from rhapsode.types import SpeechRequest, Voice
from tiny.cosyvoice3 import HOP

LONG = "One two three four. " * 5 + "Good morning to you all."
BOB = Voice(name="bob")


@contextmanager
def running(folder: Path, **settings) -> Iterator[Engine]:
    """In float64, so that rounding changes no draw."""
    subject = Subject("cosyvoice3", (), "", "float64", model=lambda: str(folder))
    engine = subject.engine(graphs=False, **settings)
    try:
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Iterator[Engine]:
    """With a context that holds about twenty tokens of text."""
    with running(tiny, options={"flow_context_s": 10}) as started:
        yield started


def marks_of(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The marks that the talker puts into its stream from now on."""
    stream, found = engine.pipeline.stages["flow"]._source, []
    real = stream.mark
    monkeypatch.setattr(stream, "mark", lambda slot, mark: (found.append(mark), real(slot, mark)))
    return found


@pytest.mark.parametrize(
    "interleave", [pytest.param(False, id="known"), pytest.param(True, id="in turns", marks=pytest.mark.slow)]
)
def test_a_long_text_is_spoken_in_parts_of_one_request(engine: Engine, monkeypatch, interleave: bool) -> None:
    marks = marks_of(engine, monkeypatch)
    request = SpeechRequest(LONG, BOB, seed=3, options={"interleave": interleave, "enforce_min_length": False})
    speech = engine.submit(request)
    samples = hear(speech)
    assert len(marks) == 2  # between three parts
    assert samples.shape[1] == speech.outcome.frames * HOP
    np.testing.assert_allclose(speak(engine, request), samples, atol=1e-6)
    assert_all_free(engine)


@pytest.mark.slow
def test_appended_text_is_cut_into_the_same_parts(engine: Engine) -> None:
    options = {"interleave": True}
    whole = speak(engine, SpeechRequest(LONG, BOB, seed=3, options=options))
    speech = engine.submit(SpeechRequest("", BOB, seed=3, text_open=True))
    for start in range(0, len(LONG), 7):
        speech.append(LONG[start : start + 7])
    speech.finish_text()
    np.testing.assert_allclose(hear(speech), whole, atol=1e-6)
    assert_all_free(engine)


def test_speech_is_heard_before_the_text_ends(engine: Engine) -> None:
    with engine.submit(SpeechRequest("", Voice(name="ada"), seed=3, text_open=True)) as speech:
        for word in LONG.split()[:14]:
            speech.append(f"{word} ")
        first = speech.get(timeout_s=20)
        speech.finish_text()
        rest = [chunk.samples.shape[1] for chunk in speech]
    assert first is not None
    assert first.samples.shape[1] > 0
    assert sum(rest) > first.samples.shape[1]
    assert_all_free(engine)


def test_text_that_never_comes_is_an_error(engine: Engine) -> None:
    speech = engine.submit(SpeechRequest("", BOB, text_open=True))
    time.sleep(0.02)
    speech.finish_text()
    with pytest.raises(EmptyAudio):
        hear(speech)
    assert_all_free(engine)


def test_a_deployment_chooses_language_model_and_mask(tiny: Path, engine: Engine) -> None:
    request = SpeechRequest("Hello there.", BOB, seed=3)
    usual = speak(engine, request)
    for options in ({"llm": "rl"}, {"mask": "full"}):
        with running(tiny, options={"flow_context_s": 10, **options}, limits={"max_concurrency": 2}) as other:
            samples = speak(other, request)
            assert samples.shape != usual.shape or not np.allclose(samples, usual, atol=1e-3)
            assert np.isfinite(samples).all()
    for options in ({"llm": "other"}, {"flow_context_s": 1}, {"first_tokens": 26}):
        with pytest.raises(ConfigError), running(tiny, options=options):
            pass
