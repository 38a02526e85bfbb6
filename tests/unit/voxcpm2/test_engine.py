"""Every mode through the engine: streamed is whole, a crowd changes nothing, and what is given up is given back."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhapsode.engine import Engine
from rhapsode.testing.subject import Subject, assert_all_free, hear, speak
from rhapsode.types import Clip, FinishReason, Reference, Sampling, SpeechRequest, Voice
from tiny.voxcpm2 import HOP, OUT_RATE, SAMPLE_RATE, Tiny, reference_audio, write

LONG, SHORT = (Clip(reference_audio(n)[None], SAMPLE_RATE) for n in (9_000, 2_000))
MODES: dict[str, SpeechRequest] = {
    "zero-shot": SpeechRequest("Hello there."),
    "design": SpeechRequest("Good morning.", Voice(description="An old man")),
    "reference": SpeechRequest("One two three four.", Voice.cloned(LONG)),
    "control": SpeechRequest("Yes, it is.", Voice.cloned(LONG, "ref"), instructions="sadly"),
    "continuation": SpeechRequest("Hello.", Voice.cloned(LONG, "the ref")),
    "short continuation": SpeechRequest("Hello again.", Voice.cloned(SHORT, "ref")),
    "both": SpeechRequest("Oh.", Voice.cloned(LONG, "ref"), options={"cloning": "both"}),
    "two clips": SpeechRequest("Where?", Voice(references=(Reference(SHORT),), continued=Reference(LONG, "the ref"))),
    "guided": SpeechRequest("你好世界", options={"cfg_value": 3.0}),
}


def asked(name: str) -> SpeechRequest:
    """Ragged: every mode has its own length, number of steps and seed."""
    request, number = MODES[name], list(MODES).index(name)
    options = {"max_len": 5 + number, "inference_timesteps": 1 + number % 4, **request.options}
    return SpeechRequest(request.text, request.voice, instructions=request.instructions, seed=number, options=options)


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder: Path = tmp_path_factory.mktemp("voxcpm2")
    write(folder, Tiny(stop_shift=10.0, layers=(1, 1, 1)))
    return Subject("voxcpm2", (), dtype="float64", tolerance=1e-9, model=lambda: str(folder))


@pytest.fixture(scope="module")
def engine(subject: Subject) -> Iterator[Engine]:
    engine = subject.engine(limits={"max_concurrency": len(MODES)})
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def alone(subject: Subject) -> dict[str, np.ndarray]:
    """Each mode by itself, decoded as one chunk."""
    engine = subject.engine(chunks={"first": 64, "largest": 64, "ring": 65, "patience_s": 0.0})
    found = {}
    for name in MODES:
        chunks = list(engine.submit(asked(name)))
        assert len(chunks) == 1
        found[name] = chunks[0].samples
    engine.stop()
    return found


@pytest.mark.parametrize("name", MODES)
def test_streamed_is_whole(subject: Subject, engine: Engine, alone: dict[str, np.ndarray], name: str) -> None:
    speech = engine.submit(replace(asked(name), first_chunk_frames=1))  # however slow this machine is
    first = speech.get()
    assert first.samples.shape[1] == HOP == round(0.16 * OUT_RATE)
    rest = [chunk.samples for chunk in speech]
    assert len(rest) > 1
    assert subject.same(np.concatenate([first.samples, *rest], axis=1), alone[name])
    assert speech.outcome.finish_reason == FinishReason.LENGTH  # as many as were asked for, and no runaway


def test_ragged_requests_of_all_modes_together_sound_as_each_alone(
    subject: Subject, engine: Engine, alone: dict[str, np.ndarray]
) -> None:
    speeches = {name: engine.submit(asked(name)) for name in MODES}
    for name, speech in speeches.items():
        assert subject.same(hear(speech), alone[name]), name
    assert len({samples.shape for samples in alone.values()}) == len(MODES)
    assert_all_free(engine)


def test_an_abort_in_any_mode_frees_both_caches(subject: Subject, engine: Engine, alone: dict[str, np.ndarray]) -> None:
    assert len(engine.pipeline.workers["talk"].traits().kv) == 2  # on one page table, which is what is given back
    for name in MODES:
        speech = engine.submit(asked(name))
        speech.get()
        speech.abort()
    assert_all_free(engine)
    assert subject.same(speak(engine, asked("both")), alone["both"])


def test_a_patch_of_an_odd_number_of_values_speaks(tmp_path: Path) -> None:
    write(tmp_path, Tiny(stop_shift=10.0, layers=(1, 1, 1), patch=3, feat=5, decoder_rates=(3, 2)))
    engine = Subject("voxcpm2", (), model=lambda: str(tmp_path)).engine()
    said = speak(engine, SpeechRequest("Hi.", seed=1, options={"max_len": 4, "inference_timesteps": 2}))
    engine.stop()
    assert said.shape == (1, 4 * 3 * 6)
    assert said.std() > 1e-3


def test_temperature_scales_the_noise(engine: Engine) -> None:
    def said(**wishes: Any) -> np.ndarray:
        return speak(engine, Subject("voxcpm2", ()).request("Hi.", options={"max_len": 3}, **wishes))

    calm = [said(sampling=Sampling(temperature=0.0), seed=seed) for seed in (1, 2)]
    wild = [said(seed=seed) for seed in (1, 2)]
    assert np.array_equal(*calm)
    assert not np.array_equal(*wild)
