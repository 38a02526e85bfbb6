"""Every mode through the engine: streamed is whole, a crowd changes nothing, and chunks are joined with silence."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rhapsode.engine import Engine
from rhapsode.models.moss_tts_nano.chunks import PAUSE_AFTER_SHORT_S, PAUSE_S
from rhapsode.testing.subject import Subject, assert_all_free, hear, speak
from rhapsode.types import Clip, FinishReason, Reference, SpeechRequest, Voice
from tiny.moss_tts_nano import SAMPLE_RATE, Tiny, reference_audio, write

STEREO, MONO = Clip(reference_audio(440), SAMPLE_RATE), Clip(reference_audio(300, 1), 24_000)
LONG_TEXT = "One two three four five six. Seven eight nine. And so on and on."
MODES: dict[str, SpeechRequest] = {
    "plain": SpeechRequest("Hello there."),
    "clone": SpeechRequest("One two three four.", Voice.cloned(STEREO)),
    "mono clone": SpeechRequest("Yes, it is.", Voice.cloned(MONO)),
    "clone without its transcript": SpeechRequest(
        "Oh.", Voice.cloned(STEREO, "the ref"), options={"cloning": "reference"}
    ),
    "continuation": SpeechRequest("Hello.", Voice.cloned(STEREO, "the ref")),
    "prompt audio": SpeechRequest("Where?", Voice(continued=Reference(STEREO, "another ref"))),
    "few codebooks": SpeechRequest("Good morning.", Voice.cloned(STEREO), options={"nq": 2}),
    "chunks": SpeechRequest(LONG_TEXT, Voice.cloned(STEREO), options={"max_text_tokens": 30}),
}


def asked(name: str) -> SpeechRequest:
    return replace(MODES[name], seed=20 + list(MODES).index(name))


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder: Path = tmp_path_factory.mktemp("moss")
    write(folder, Tiny())
    return Subject("moss-tts-nano", (), dtype="float64", tolerance=1e-9, model=lambda: str(folder))


@pytest.fixture(scope="module")
def engine(subject: Subject) -> Iterator[Engine]:
    engine = subject.engine(limits={"max_concurrency": len(MODES)}, chunks={"patience_s": 0.0})
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def alone(subject: Subject) -> dict[str, np.ndarray]:
    """Each mode by itself, decoded in the largest chunks."""
    engine = subject.engine(chunks={"first": 64, "largest": 64, "ring": 65, "patience_s": 0.0})
    found = {name: speak(engine, asked(name)) for name in MODES}
    engine.stop()
    return found


@pytest.mark.parametrize("name", MODES)
def test_streamed_is_whole(subject: Subject, engine: Engine, alone: dict[str, np.ndarray], name: str) -> None:
    speech = engine.submit(replace(asked(name), first_chunk_frames=1))
    pieces = [chunk.samples for chunk in speech]
    assert len(pieces) > 1
    assert pieces[0].shape[1] == Tiny().hop
    assert subject.same(np.concatenate(pieces, axis=1), alone[name])
    assert speech.outcome.finish_reason == FinishReason.STOP


def test_ragged_requests_of_all_modes_together_sound_as_each_alone(
    subject: Subject, engine: Engine, alone: dict[str, np.ndarray]
) -> None:
    speeches = {name: engine.submit(asked(name)) for name in MODES}
    for name, speech in speeches.items():
        assert subject.same(hear(speech), alone[name]), name
    assert_all_free(engine)


def test_chunks_are_spoken_one_after_the_other_with_silence_between(engine: Engine) -> None:
    """A chunk that is asked for alone has another seed, so lengths are compared by what is silent."""
    request = asked("chunks")
    samples = speak(engine, request)
    silent = np.flatnonzero(np.all(samples == 0, axis=0))
    runs = np.split(silent, np.flatnonzero(np.diff(silent) != 1) + 1)
    pauses = [len(run) for run in runs if len(run) > SAMPLE_RATE // 10]
    assert pauses == [round(PAUSE_S * SAMPLE_RATE), round(PAUSE_AFTER_SHORT_S * SAMPLE_RATE)]


def test_the_first_chunk_sounds_as_it_does_alone(subject: Subject, engine: Engine) -> None:
    """The others begin with fresh state: what was said before has no influence on their codec."""
    request = asked("chunks")
    whole = speak(engine, request)
    first = speak(engine, replace(request, text="One two three four five six."))
    assert subject.same(whole[:, : first.shape[1]], first)
    assert not whole[:, first.shape[1] : first.shape[1] + round(PAUSE_S * SAMPLE_RATE)].any()


def test_an_abort_between_chunks_frees_everything(engine: Engine) -> None:
    for _ in range(3):
        speech = engine.submit(asked("chunks"))
        for chunk in speech:
            if not chunk.samples.any():
                break
        speech.abort()
    assert_all_free(engine)


def test_a_voice_that_was_heard_before_is_prefilled_from_shared_pages(engine: Engine) -> None:
    speak(engine, asked("clone"))
    pool = engine.pipeline.stages["talk"]._memory.pool
    before = pool.shared_hits
    speak(engine, replace(asked("clone"), text="Something else."))
    assert pool.shared_hits > before


def test_fewer_codebooks_sound_different(engine: Engine) -> None:
    few = speak(engine, asked("few codebooks"))
    all_of_them = speak(engine, replace(asked("few codebooks"), options={}))
    assert few.shape != all_of_them.shape or np.abs(few - all_of_them).max() > 1e-3


def test_text_that_arrives_later_is_spoken_sentence_by_sentence(subject: Subject, engine: Engine) -> None:
    sentences = ("One two three four five six.", "Seven eight nine?", "And so on.")
    voice = Voice.cloned(STEREO)
    said = [speak(engine, SpeechRequest(text, voice, seed=50 + i)) for i, text in enumerate(sentences)]
    pauses = [np.zeros((2, round(s * SAMPLE_RATE)), np.float32) for s in (PAUSE_S, PAUSE_AFTER_SHORT_S)]
    expected = np.concatenate([said[0], pauses[0], said[1], pauses[1], said[2]], axis=1)
    speech = engine.submit(SpeechRequest("", voice, seed=50, text_open=True))
    for piece in " ".join(sentences):
        speech.append(piece)
    speech.finish_text()
    assert subject.same(hear(speech), expected)
    assert_all_free(engine)
