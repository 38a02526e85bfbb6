"""Dialogues on the engine: a context that grows, begins afresh when it is full, and takes text while it speaks."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rhapsode.engine import Engine, clock
from rhapsode.errors import EmptyAudio, InvalidRequest
from rhapsode.testing.subject import Subject, assert_all_free, hear, speak
from rhapsode.types import Clip, FinishReason, Reference, Sampling, SpeechRequest, Voice
from tiny.fish_s2_pro import HOP, SAMPLE_RATE, reference_audio
from unit.fish_s2_pro.asked import CASES, FIRST_AUDIO, FULL, INDEX, golden, request

TURNS = "<|speaker:0|>One two. <|speaker:1|>Three. <|speaker:0|>Four five six. <|speaker:1|>Seven."
VOICE = Voice(
    references=tuple(Reference(Clip(reference_audio(150 + 50 * i, i)[None], SAMPLE_RATE), f"ref {i}") for i in range(2))
)


@contextmanager
def running(folder: Path, **settings) -> Iterator[Engine]:
    """In float64, so that rounding changes no draw."""
    engine = Subject("fish-s2-pro", (), "", "float64", model=lambda: str(folder), max_positions=4096).engine(**settings)
    try:
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Iterator[Engine]:
    with running(tiny) as started:
        yield started


def dialogue(chunk_length: int = 25, **wishes) -> SpeechRequest:
    return SpeechRequest(TURNS, VOICE, seed=3, options={"chunk_length": chunk_length}, **wishes)


# --- as upstream ---


@pytest.mark.parametrize("name", ["clone-turns", "clone-two"])
def test_a_dialogue_of_two_references_is_upstreams_from_text_to_sound(golden_checkpoint: Path, name: str) -> None:
    arrays = golden(name)
    with running(golden_checkpoint) as engine:
        if not FULL:
            encode = engine.pipeline.workers["encode"]
            encode._codes = lambda clip: arrays[f"reference_codes_{clip.samples.shape[1] - FIRST_AUDIO}"]
        speech = engine.submit(request(name, sampling=Sampling(temperature=0.0)))
        heard = hear(speech)
    expected = np.concatenate([arrays[f"waveform_{i}"] for i in range(CASES[name]["batches"])])
    assert speech.outcome.frames == len(expected) // INDEX["hop"]
    np.testing.assert_allclose(heard[0], expected, atol=2e-5)


# --- whole and streamed, alone and together ---


def test_batches_of_turns_are_heard_the_same_streamed_whole_alone_and_together(tiny: Path, engine: Engine) -> None:
    requests = [dialogue(), dialogue(60), SpeechRequest("Hello there.", seed=3), SpeechRequest("Hi.", VOICE, seed=4)]
    alone = [speak(engine, asked) for asked in requests]
    chunks = {"first": 1024, "largest": 1024, "ring": 1025, "patience_s": 0.0}
    with running(tiny, chunks=chunks, memory={"page_size": 7}) as other:
        for speech, expected in zip([other.submit(asked) for asked in requests], alone, strict=True):
            np.testing.assert_allclose(hear(speech), expected, atol=1e-6)
        assert_all_free(other)
    assert len({one.tobytes() for one in alone}) == len(alone)


def test_the_first_chunk_is_one_frame(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "clock_s", lambda: 1.0)  # however slow this machine is, nobody runs dry
    with running(tiny, chunks={"patience_s": 0.0}) as engine:
        asked = SpeechRequest("Good morning to you all, wherever you are.", seed=7, first_chunk_frames=1)
        sizes = [chunk.samples.shape[1] for chunk in engine.submit(asked)]
    assert sizes[:3] == [HOP, 2 * HOP, 4 * HOP]


@pytest.mark.slow
def test_each_batch_is_generated_after_those_before_and_decoded_from_silence(engine: Engine) -> None:
    first = speak(engine, SpeechRequest("<|speaker:0|>One two.", VOICE, seed=3))
    whole = speak(engine, dialogue())
    np.testing.assert_allclose(whole[:, : first.shape[1]], first, atol=1e-6)
    others = speak(
        engine, SpeechRequest(TURNS.replace("One two", "Two one"), VOICE, seed=3, options={"chunk_length": 25})
    )
    assert not np.array_equal(whole[:, -10 * HOP :], others[:, -10 * HOP :])


@pytest.mark.slow
def test_all_turns_of_a_batch_or_frames_that_were_asked_for_end_it(engine: Engine) -> None:
    whole = speak(engine, dialogue())
    frames = speak(engine, SpeechRequest("<|speaker:0|>One two.", VOICE, seed=3)).shape[1] // HOP
    for most in (frames, frames + 1):  # where the first batch ends, and one frame later
        speech = engine.submit(dialogue(max_frames=most))
        np.testing.assert_allclose(hear(speech), whole[:, : most * HOP], atol=1e-6)
        assert speech.outcome.finish_reason == FinishReason.LENGTH
        assert_all_free(engine)


# --- a context that is full ---


@pytest.mark.slow
def test_a_dialogue_longer_than_the_context_begins_afresh_and_goes_on(tiny: Path, engine: Engine) -> None:
    long = SpeechRequest(" ".join([TURNS] * 3), VOICE, seed=3, options={"chunk_length": 25})
    roomy = speak(engine, long)
    with running(tiny, limits={"max_positions": 1400}) as small:
        heard = speak(small, long)
        first = min(heard.shape[1], roomy.shape[1]) // 3
        np.testing.assert_allclose(heard[:, :first], roomy[:, :first], atol=1e-6)
        assert not np.array_equal(heard[:, -HOP:], roomy[:, -HOP:])  # what was said before was forgotten
        np.testing.assert_allclose(speak(small, long), heard, atol=1e-6)
        assert_all_free(small)
    with running(tiny, limits={"max_positions": 300}) as engine, pytest.raises(InvalidRequest, match="positions"):
        speak(engine, SpeechRequest("a" * 280, VOICE))


# --- text that arrives ---


def appended(engine: Engine, *pieces: str) -> np.ndarray:
    speech = engine.submit(SpeechRequest("", VOICE, seed=3, text_open=True))
    for piece in pieces:
        speech.append(piece)
    speech.finish_text()
    return hear(speech)


@pytest.mark.slow
def test_appended_turns_sound_like_turns_that_were_known_from_the_start(engine: Engine) -> None:
    whole = speak(engine, dialogue())
    np.testing.assert_allclose(appended(engine, TURNS), whole, atol=1e-6)
    np.testing.assert_allclose(appended(engine, *TURNS), whole, atol=1e-6)


def test_sentences_of_one_speaker_follow_each_other_in_one_context(engine: Engine) -> None:
    one = appended(engine, "<|speaker:1|>Good morning. ", "How are you?")
    turns = "<|speaker:1|>Good morning. <|speaker:1|>How are you?"
    asked = SpeechRequest(turns, VOICE, seed=3, options={"chunk_length": 25})
    np.testing.assert_allclose(one, speak(engine, asked), atol=1e-6)


def test_a_voice_is_prefilled_while_the_first_words_are_still_typed(engine: Engine) -> None:
    before = engine.load().pages_in_use
    waiting = engine.submit(SpeechRequest("", VOICE, seed=3, text_open=True))
    for _ in range(500):
        if engine.load().pages_in_use > before:
            break
        time.sleep(0.01)
    assert engine.load().pages_in_use > before
    waiting.append("Hello there.")
    waiting.finish_text()
    np.testing.assert_allclose(hear(waiting), speak(engine, SpeechRequest("Hello there.", VOICE, seed=3)), atol=1e-6)


def test_text_that_ends_without_a_word_is_an_error(engine: Engine) -> None:
    speech = engine.submit(SpeechRequest("", VOICE, seed=3, text_open=True))
    speech.append("   ")
    speech.finish_text()
    with pytest.raises(EmptyAudio):
        hear(speech)
    assert_all_free(engine)
