"""Dialogues: several voices in one request, with exact pauses, one loudness, and errors that name the segment."""

import numpy as np
import pytest

from rhapsode.audio.finish import Finish
from rhapsode.audio.loudness import integrated_loudness
from rhapsode.checking.dialogue import check_speakers, speakers_of
from rhapsode.config import resolve
from rhapsode.engine.script import SpeechScript
from rhapsode.errors import InvalidRequest
from rhapsode.text.front_end import TextSettings
from rhapsode.tts import TTS
from rhapsode.types import AudioChunk, Clip, Sampling, Segment, SpeechRequest, Voice

RATE = 16_000
LETTER = 1_280  # samples of one letter of the dummy


@pytest.fixture(scope="module")
def tts():
    with TTS("dummy", device="cpu", limits={"max_concurrency": 4, "max_segments": 5, "max_text_chars": 200}) as tts:
        yield tts


def said(tts: TTS, *segments: Segment, **wishes) -> list[AudioChunk]:
    with tts.stream(list(segments), **wishes) as stream:
        chunks = list(stream)
    assert stream.outcome is not None
    assert stream.outcome.finish_reason == "stop"
    return chunks


def whole(chunks: list[AudioChunk]) -> np.ndarray:
    return np.concatenate([chunk.samples for chunk in chunks], axis=1)


def test_segments_follow_each_other_with_exact_pauses_as_if_each_was_spoken_alone(tts: TTS) -> None:
    greedy = Sampling(temperature=0)
    segments = (Segment("Who is it?", "low"), Segment("It is me.", "high", pause_s=0.5), Segment("Come in.", "low"))
    spoken = tts.engine.submit(SpeechRequest("", segments=segments, sampling=greedy))
    chunks = list(spoken)
    alone = [whole(list(tts.engine.submit(SpeechRequest(s.text, s.voice, sampling=greedy)))) for s in segments]
    half, third = (np.zeros((1, round(seconds * RATE)), np.float32) for seconds in (0.5, 0.3))
    expected = np.concatenate((alone[0], half, alone[1], third, alone[2]), axis=1)
    assert np.array_equal(whole(chunks), expected)
    speakers = [chunk.speaker for chunk in chunks if not chunk.is_pause]
    assert sorted(set(speakers)) == [0, 1]
    assert speakers[0] == speakers[-1] == 0
    assert spoken.outcome is not None
    assert spoken.outcome.audio_s == pytest.approx(expected.shape[1] / RATE)


def test_a_pause_keeps_its_length_at_any_speed_and_the_pieces_change_nothing(tts: TTS) -> None:
    segments = (Segment("aaaa", "low"), Segment("aaaa", "high", pause_s=0.5))
    fast = whole(said(tts, *segments, speed=2.0, seed=1))
    assert fast.shape[1] == 4 * LETTER + round(0.5 * RATE)
    assert np.array_equal(fast, whole(said(tts, *segments, speed=2.0, seed=1, first_chunk_frames=3)))


def test_one_outcome_and_one_abort_for_all(tts: TTS) -> None:
    with tts.stream([Segment("a" * 60, "low"), Segment("a" * 60, "high")]) as stream:
        next(iter(stream))
    assert stream.outcome is not None
    assert stream.outcome.finish_reason in ("aborted", "stop")


def test_every_voice_is_brought_to_one_loudness() -> None:
    noise = np.random.default_rng(3).normal(0, 0.05, (1, 6 * RATE)).astype(np.float32)
    chunks = [
        AudioChunk(noise * level, RATE, index, speaker=index % 2) for index, level in enumerate((1.0, 0.1, 1.0, 0.1))
    ]
    request = SpeechRequest("", segments=(Segment("A."), Segment("B.", "high")))
    finish = Finish(request, RATE, 1, 1)
    heard = [finish.write([chunk]) for chunk in chunks]
    assert finish.close().shape == (1, 0)
    levels = [integrated_loudness(part, RATE) for part in heard]
    assert all(abs(level + 20) < 1.5 for level in levels)
    assert abs(levels[2] - levels[3]) < 0.5


def test_a_speaker_is_a_voice_not_a_segment() -> None:
    recording = Voice.cloned(Clip(np.zeros((1, 10), np.float32), RATE))
    segments = [Segment("A.", "low"), Segment("B.", recording), Segment("C.", "low"), Segment("D.", recording)]
    assert speakers_of(segments) == [0, 1, 0, 1]


def test_ssml_in_a_segment_keeps_its_voice() -> None:
    ssml = "<speak>One. <break time='1s'/> Two.</speak>"
    request = SpeechRequest("", segments=(Segment(ssml, "low"), Segment(ssml, "high")), input_type="ssml")
    sections = SpeechScript(request, TextSettings("ssml")).sections
    assert [section.voice.name for section in sections if section.voice] == ["low", "low", "high", "high"]
    assert [section.pause_s for section in sections] == [0.0, 1.0, 0.3, 1.0]
    assert len({section.draw for section in sections}) == 4


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([Segment("A."), Segment("  ")], r"segments\.1: the text is empty"),
        ([Segment("A."), Segment("B."), Segment("C.", "nobody")], r"segments\.2: .* no voice 'nobody'"),
        ([Segment("A.", pause_s=-1.0)], r"segments\.0: pause_s must be between 0 and 60"),
        ([Segment("A.")] * 6, "at most 5 segments, not 6"),
        ([Segment("a" * 150)] * 2, "301 characters; at most 200"),
    ],
)
def test_what_is_wrong_with_a_segment_is_said_with_its_number(tts: TTS, segments: list, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        tts.stream(segments)


def test_a_dialogue_has_a_limited_number_of_voices() -> None:
    check_speakers(16)
    with pytest.raises(InvalidRequest, match="at most 16 voices"):
        check_speakers(17)


def test_a_family_whose_voice_cannot_change_says_so() -> None:
    from rhapsode.checking.request import checked
    from rhapsode.models.cosyvoice3.spec import SPEC
    from rhapsode.models.describe import describe

    request = SpeechRequest("", segments=(Segment("A.", "x"), Segment("B.", "y")))
    with pytest.raises(InvalidRequest, match="one voice only"):
        checked(request, SPEC, describe(SPEC, None, {}), resolve(env={}).limits)
