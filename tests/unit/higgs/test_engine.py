"""Speech on the engine: frames that are heard, first audio, turns in one context, and text that arrives."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rhapsode.engine import Engine, clock
from rhapsode.errors import InvalidRequest, Runaway
from rhapsode.testing.subject import Subject, assert_all_free, hear, speak
from rhapsode.types import Clip, FinishReason, Reference, Sampling, SpeechRequest, Voice
from tiny.higgs import SAMPLE_RATE, reference_audio
from tiny.higgs_codec import HOP
from unit.higgs.asked import FULL, SPECS, case, golden, names, request

CLIPS = [Clip(reference_audio(2600 + 700 * i), SAMPLE_RATE) for i in range(2)]
TWO = Voice(references=tuple(Reference(clip, f"ref {i}") for i, clip in enumerate(CLIPS)))
TURNS = "[SPEAKER0] One two. [SPEAKER1] Three."


@contextmanager
def running(generation: int, folder: Path, dtype: str = "float64", **settings) -> Iterator[Engine]:
    """In float64, so that rounding changes no draw."""
    name = SPECS[generation].name
    engine = Subject(name, (), "", dtype, model=lambda: str(folder), max_positions=2048).engine(**settings)
    try:
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def v2(tiny_v2: Path) -> Iterator[Engine]:
    with running(2, tiny_v2) as started:
        yield started


@pytest.fixture(scope="module")
def v3(tiny_v3: Path) -> Iterator[Engine]:
    with running(3, tiny_v3) as started:
        yield started


# --- as upstream ---


@pytest.mark.skipif(not FULL, reason="needs upstream's codecs and recordings: HIGGS_GOLDEN")
@pytest.mark.parametrize(("generation", "layout"), [(2, "checkpoint"), (2, "checkpoint-original"), (3, "checkpoint")])
def test_every_case_is_upstreams_from_text_to_sound(generation: int, layout: str) -> None:
    source = Path(FULL or "") / f"higgs-v{generation}"
    with running(generation, source / layout, "float32") as engine:
        for name in names(generation):
            frames = len(golden(generation, name)["frames"])
            asked = request(generation, name, sampling=Sampling(temperature=0.0), max_frames=frames)
            expected = np.load(source / case(generation, name)["expected"])["waveform"]
            np.testing.assert_allclose(hear(engine.submit(asked))[0], expected, atol=1e-5)


# --- frames that are heard ---


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("generation", [2, 3])
def test_a_limit_counts_frames_that_are_heard(fixtures, generation: int, most: int) -> None:
    engine: Engine = fixtures(f"v{generation}")
    speech = engine.submit(SpeechRequest("Good morning to you.", seed=2, max_frames=most))
    heard = hear(speech)
    assert heard.shape[1] == most * HOP
    assert (speech.outcome.frames, speech.outcome.finish_reason) == (most, FinishReason.LENGTH)
    assert_all_free(engine)


@pytest.fixture
def fixtures(request):
    return request.getfixturevalue


def test_a_prompt_must_leave_room_for_the_silent_steps_and_a_frame(tiny_v3: Path) -> None:
    with running(3, tiny_v3, limits={"max_positions": 32}) as engine:
        # `<|tts|><|text|>` and the text are prefilled; two steps are silent.
        with pytest.raises(InvalidRequest, match="positions"):
            speak(engine, SpeechRequest("a" * 28))
        heard = speak(engine, SpeechRequest("a" * 27, max_frames=1))
        assert heard.shape[1] == HOP
        with pytest.raises(Runaway, match="within the 1 frames"):
            speak(engine, SpeechRequest("a" * 27))


def test_the_first_chunk_is_one_frame(tiny_v2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "clock_s", lambda: 1.0)  # however slow this machine is, nobody runs dry
    with running(2, tiny_v2, chunks={"patience_s": 0.0}) as engine:
        asked = SpeechRequest(TURNS, TWO, seed=1, options={"chunk": "sentence"})
        sizes = [chunk.samples.shape[1] // HOP for chunk in engine.submit(asked)]
    assert sizes[:3] == [1, 2, 4]


# --- v2: turns in one context, heard as one recording ---


def test_turns_are_decoded_as_one_recording(v2: Engine) -> None:
    """What comes after a turn changes its last frames: the codec sees them as it would see one recording."""
    first = speak(v2, SpeechRequest("[SPEAKER0] One two.", TWO, seed=0))
    both = speak(v2, SpeechRequest(TURNS, TWO, seed=0, options={"chunk": "speaker"}))
    assert both.shape[1] > first.shape[1] > 14 * HOP
    start = first.shape[1] - 14 * HOP
    np.testing.assert_allclose(both[:, :start], first[:, :start], atol=1e-9)
    assert np.abs(both[:, : first.shape[1]] - first).max() > 1e-6


def test_a_dialogue_longer_than_the_context_begins_afresh_and_goes_on(tiny_v2: Path, v2: Engine) -> None:
    long = SpeechRequest(" ".join([TURNS] * 4), TWO, seed=3, options={"chunk": "speaker"})
    roomy = speak(v2, long)
    with running(2, tiny_v2, limits={"max_positions": 1000}) as small:
        heard = speak(small, long)
        assert heard.shape[1] > 4 * HOP
        assert_all_free(small)
    assert not np.array_equal(heard[:, -HOP:], roomy[:, -HOP:])


def test_repetition_aware_sampling_changes_what_is_said_even_greedily(v2: Engine) -> None:
    said = [
        speak(v2, SpeechRequest("Hi.", seed=seed, max_frames=12, sampling=Sampling(temperature=0.0), options=options))
        for seed, options in ((1, {"ras_limit": 0}), (2, {"ras_limit": 0}), (1, {}), (2, {}))
    ]
    np.testing.assert_allclose(said[0], said[1], atol=1e-9)
    assert said[0].shape != said[2].shape or np.abs(said[0] - said[2]).max() > 1e-6
    assert said[2].shape != said[3].shape or np.abs(said[2] - said[3]).max() > 1e-6


# --- text that arrives ---


def appended(engine: Engine, voice: Voice, *pieces: str) -> np.ndarray:
    speech = engine.submit(SpeechRequest("", voice, seed=3, text_open=True))
    for piece in pieces:
        speech.append(piece)
    speech.finish_text()
    return hear(speech)


def test_appended_text_sounds_like_sentences_that_were_known_from_the_start(v2: Engine, v3: Engine) -> None:
    wish = {"seed": 3, "options": {"chunk": "sentence"}}
    whole = speak(v2, SpeechRequest(TURNS, TWO, **wish))
    np.testing.assert_allclose(appended(v2, TWO, *TURNS), whole, atol=1e-9)
    one = Voice.cloned(CLIPS[0], "ref")
    whole = speak(v3, SpeechRequest("Hello there. <|emotion:elation|>Yes.", one, **wish))
    np.testing.assert_allclose(appended(v3, one, *"Hello there. <|emotion:elation|>Yes."), whole, atol=1e-9)
