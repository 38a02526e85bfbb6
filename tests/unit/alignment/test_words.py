"""Words with times, measured by the engine in audio whose words are known exactly."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rhapsode.engine.alignment as alignment_module
from rhapsode import TTS, AudioChunk, WordTime
from rhapsode.alignment.aligner import Aligner
from rhapsode.alignment.model import FrameBlocks
from rhapsode.alignment.text import WordText
from rhapsode.alignment.track import LATEST_S, WordTrack
from rhapsode.config import resolve
from rhapsode.errors import GenerationFailed, InvalidRequest
from rhapsode.text.front_end import TextSettings
from rhapsode.types import FinishReason, Segment
from spelling.family import LETTER_S, RATE, SPELLING, TONE_S, spelled
from spelling.hearing import DELAY, ToneModel

NEAR_S = 0.0201  # a frame
PIECE_S = 0.01
TEXT = "It was the best of times, it was the worst of times."


@pytest.fixture(scope="module")
def tts() -> Iterator[TTS]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment_module, "load_acoustic", lambda *_: ToneModel())
        deployment = resolve(env={}, flags={"model": "spelling", "limits": {"max_concurrency": 4}})
        with TTS.opened(SPELLING, deployment) as opened:
            yield opened


def expected(spoken: str, speed: float = 1.0) -> list[tuple[float, float]]:
    """The times of the words of a text that is spelled."""
    times, at = [], 0
    for word in spoken.split(" "):
        letters = word.strip(".,")
        last = at + len(letters) - 1
        times.append((at * LETTER_S / speed, (last * LETTER_S + TONE_S) / speed))
        at += len(word) + 1
    return times


def check_times(words: tuple[WordTime, ...], times: list[tuple[float, float]], near_s: float = NEAR_S) -> None:
    assert len(words) == len(times)
    for word, (start_s, end_s) in zip(words, times, strict=True):
        assert word.start_s == pytest.approx(start_s, abs=near_s), word
        assert word.end_s == pytest.approx(end_s, abs=near_s), word


def test_every_word_has_its_time_and_its_characters(tts: TTS) -> None:
    audio = tts.speak(TEXT, word_timestamps=True)
    assert [word.text for word in audio.words] == TEXT.replace(",", "").replace(".", "").split()
    assert all(TEXT[word.start_char : word.stop_char] == word.text for word in audio.words)
    check_times(audio.words, expected(TEXT))


def test_words_are_not_measured_unless_somebody_asks(tts: TTS) -> None:
    with tts.stream(TEXT) as stream:
        assert not any(chunk.words for chunk in stream)
    assert stream.outcome.quality is None


def test_a_number_is_one_word_however_many_are_said(tts: TTS) -> None:
    text = "It costs $12.50 now."
    words = tts.speak(text, word_timestamps=True).words
    assert [word.text for word in words] == ["It", "costs", "$12.50", "now"]
    spoken = expected("It costs twelve dollars and fifty cents now.")
    check_times(words, [*spoken[:2], (spoken[2][0], spoken[6][1]), spoken[7]])


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.7])
def test_times_are_those_of_the_audio_that_is_heard(tts: TTS, speed: float) -> None:
    words = tts.speak(TEXT, word_timestamps=True, speed=speed).words
    check_times(words, expected(TEXT, speed), NEAR_S / speed + 0.001)


def test_pauses_and_paces_move_the_words_after_them(tts: TTS) -> None:
    ssml = "<speak>one<break time='1s'/><prosody rate='200%'>two three</prosody> four</speak>"
    words = tts.speak(ssml, word_timestamps=True, input_type="ssml", speed=0.5).words
    assert [ssml[word.start_char : word.stop_char] for word in words] == ["one", "two", "three", "four"]
    one, two, three, four = words
    assert one.end_s == pytest.approx((2 * LETTER_S + TONE_S) / 0.5, abs=0.05)
    assert two.start_s == pytest.approx(3 * LETTER_S / 0.5 + 1.0, abs=0.05)  # a pause keeps its length
    assert three.start_s - two.start_s == pytest.approx(4 * LETTER_S, abs=0.05)
    assert four.end_s - four.start_s == pytest.approx((3 * LETTER_S + TONE_S) / 0.5, abs=0.05)


MARKED = (
    "<speak><mark name='begin'/>one <mark name='inside'/>two<mark name='before'/><break time='1s'/>"
    "<mark name='after'/>three<mark name='end'/><break time='1s'/><mark name='last'/></speak>"
)


@pytest.mark.parametrize("speed", [0.5, 1.0])
def test_a_mark_is_reached_where_the_next_word_begins_or_the_last_one_ends(tts: TTS, speed: float) -> None:
    audio = tts.speak(MARKED, word_timestamps=True, input_type="ssml", speed=speed)
    one, two, three = audio.words
    reached = [(mark.name, mark.time_s) for mark in audio.bookmarks]
    expected = [("begin", one.start_s), ("inside", two.start_s), ("before", two.end_s), ("after", three.start_s)]
    assert reached == [*expected, ("end", three.end_s), ("last", three.end_s)]
    assert all(MARKED[mark.at_char :].startswith(f"<mark name='{mark.name}'") for mark in audio.bookmarks)


@pytest.mark.parametrize("ending", ["silence", "repeat"])
def test_a_mark_at_the_end_is_told_also_where_speech_is_ended(tts: TTS, ending: str) -> None:
    ssml = "<speak>one two three<mark name='end'/></speak>"
    wishes = {"input_type": "ssml", "word_timestamps": True, "end_detection": True, "ending": ending}
    audio = tts.speak(ssml, **wishes)
    assert [(mark.name, mark.time_s) for mark in audio.bookmarks] == [("end", audio.words[-1].end_s)]


def test_marks_in_pieces_are_those_of_the_whole(tts: TTS) -> None:
    with tts.stream("", word_timestamps=True, input_type="ssml", text_open=True) as stream:
        for start in range(0, len(MARKED), 7):
            stream.append(MARKED[start : start + 7])
        stream.finish_text()
        marks = tuple(mark for chunk in stream for mark in chunk.bookmarks)
    assert marks == tts.speak(MARKED, word_timestamps=True, input_type="ssml").bookmarks
    assert tts.speak(MARKED, input_type="ssml").bookmarks == ()


@settings(deadline=None, max_examples=6)
@given(st.lists(st.integers(0, 1000), max_size=8))
def test_text_in_pieces_gives_the_words_of_the_whole(tts: TTS, cuts: list[int]) -> None:
    edges = [0, *sorted(cut % len(TEXT) for cut in cuts), len(TEXT)]
    with tts.stream("", word_timestamps=True, text_open=True) as stream:
        for start, stop in pairwise(edges):
            stream.append(TEXT[start:stop])
        stream.finish_text()
        words = tuple(word for chunk in stream for word in chunk.words)
    assert words == tts.speak(TEXT, word_timestamps=True).words


@pytest.mark.parametrize("blocks", [FrameBlocks(1, DELAY), FrameBlocks(8, DELAY)])
def test_a_word_is_told_at_most_half_a_second_of_audio_after_it(blocks: FrameBlocks) -> None:
    model, text, told = ToneModel(blocks), WordText(TextSettings(), ToneModel.symbols, "en"), Told()
    text.push(TEXT)
    text.close()
    track = WordTrack(model, text, RATE, told, ends=False, on_news=lambda track: Aligner._align(model, [track]))
    step = round(PIECE_S * RATE)
    audio = np.concatenate([spelled(char) for char in TEXT], axis=1)
    for start in range(0, audio.shape[1], step):
        told.arrived_s += PIECE_S
        track.hear(audio[:, start : start + step])
    assert [word.text for _, word in told.words][:5] == TEXT.split()[:5]
    assert max(arrived_s - word.end_s for arrived_s, word in told.words) <= LATEST_S + PIECE_S


class Told:
    """Notes how much audio had arrived when a word was told."""

    def __init__(self) -> None:
        self.words: list[tuple[float, WordTime]] = []
        self.arrived_s = 0.0

    def heard(self, seconds: float) -> None:
        assert seconds <= self.arrived_s + 1e-6

    def found(self, words: tuple[WordTime, ...]) -> None:
        self.words += [(self.arrived_s, word) for word in words]


def test_a_word_that_is_left_out_has_no_length_and_is_reported(tts: TTS) -> None:
    with tts.stream(TEXT, word_timestamps=True, without="worst") as stream:
        words = [word for chunk in stream for word in chunk.words]
    assert [word.text for word in words] == TEXT.replace(",", "").replace(".", "").split()
    unheard = [word.text for word in words if not word.is_heard]
    assert "worst" in unheard
    assert set(unheard) <= {"the", "worst", "of"}  # a word beside it may be lost with it
    assert (stream.outcome.quality.words, stream.outcome.quality.unheard) == (len(words), len(unheard))
    assert stream.outcome.quality.reached_end


@pytest.mark.parametrize("ending", ["silence", "hum", "repeat"])
def test_speech_that_goes_on_is_ended_after_its_last_word(tts: TTS, ending: str) -> None:
    with tts.stream(TEXT, end_detection=True, word_timestamps=True, ending=ending) as stream:
        chunks = list(stream)
    audio_s = sum(chunk.duration_s for chunk in chunks)
    last = [word for chunk in chunks for word in chunk.words][-1]
    assert last.text == "times"
    assert last.end_s <= audio_s < last.end_s + 1.0
    assert stream.outcome.finish_reason is FinishReason.STOP
    assert stream.outcome.quality.ended_early
    assert stream.outcome.audio_s == pytest.approx(audio_s)


def test_speech_that_ends_of_itself_is_left_as_it_is(tts: TTS) -> None:
    def heard(**wishes) -> tuple[np.ndarray, AudioChunk]:
        with tts.stream(TEXT, **wishes) as stream:
            chunks = list(stream)
        return np.concatenate([chunk.samples for chunk in chunks], axis=1), stream.outcome

    plain, _ = heard()
    ended, outcome = heard(end_detection=True)
    assert np.array_equal(plain, ended)
    assert plain.shape[1] == len(TEXT) * round(LETTER_S * RATE)
    assert not outcome.quality.ended_early
    assert outcome.quality.reached_end


def test_text_of_another_language_is_refused_with_the_way_out(tts: TTS) -> None:
    for text, language in (("Guten Tag.", "de"), ("你好，世界", None)):
        with pytest.raises(InvalidRequest, match=r"alignment: \{model: FOLDER, language: ") as caught:
            tts.stream(text, word_timestamps=True, language=language)
        assert caught.value.param == "word_timestamps"
    with tts.stream("Hello.", word_timestamps=True, language="en") as stream:
        assert [word.text for chunk in stream for word in chunk.words] == ["Hello"]


def test_listeners_at_the_same_time_get_their_own_words(tts: TTS) -> None:
    texts = [TEXT[start:] for start in (0, 3, 7, 11)]
    streams = [tts.stream(text, word_timestamps=True) for text in texts]
    for text, stream in zip(texts, streams, strict=True):
        words = tuple(word for chunk in stream for word in chunk.words)
        assert words == tts.speak(text, word_timestamps=True).words
        check_times(words, expected(text))


def test_a_request_that_is_aborted_tells_nothing_more(tts: TTS) -> None:
    with tts.stream(TEXT, word_timestamps=True, ending="repeat") as stream:
        next(iter(stream))
    assert stream.outcome.finish_reason is FinishReason.ABORTED
    assert tts.speak("Hello.", word_timestamps=True).words[0].is_heard


def test_a_family_of_frames_is_aligned_too_and_speech_without_its_words_is_reported() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment_module, "load_acoustic", lambda *_: ToneModel())
        with TTS("dummy", limits={"max_concurrency": 2}) as tts:  # its tones are no letters
            with tts.stream(TEXT, word_timestamps=True, end_detection=True, seed=1) as stream:
                chunks = list(stream)
            words = [word.text for chunk in chunks for word in chunk.words]
            assert words == TEXT.replace(",", "").replace(".", "").split()
            assert stream.outcome.finish_reason is FinishReason.STOP
            assert stream.outcome.quality.unheard > len(words) / 2
            assert not stream.outcome.quality.ended_early
            plain = tts.speak(TEXT, seed=1)
            assert np.array_equal(np.concatenate([chunk.samples for chunk in chunks], axis=1), plain.samples)


def test_a_bug_in_the_acoustic_model_fails_the_request_and_not_the_next(tts: TTS, monkeypatch) -> None:
    def broken(self, heard):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(ToneModel, "feed_many", broken)
        with pytest.raises(GenerationFailed, match="ZeroDivisionError"):
            tts.speak(TEXT, word_timestamps=True)
    assert tts.speak(TEXT, word_timestamps=True).words


def test_words_of_a_voice_that_is_told_phonemes_are_looked_for_in_letters() -> None:
    text = WordText(TextSettings(language="en", phonemes=True), ToneModel.symbols, "en")
    text.push("The hour.")
    text.close()
    words, _ = text.take()
    assert [(word.letters, word.text) for word in words] == [("the", "The"), ("hour", "hour")]


@pytest.mark.parametrize("input_type", ["text", "ssml"])
def test_words_of_several_documents_are_located_in_their_lines(input_type: str) -> None:
    lines = ["One two.", "Three."] if input_type == "text" else ["<speak>One two.</speak>", "<speak>Three.</speak>"]
    text = WordText(TextSettings(input_type=input_type, language="en"), ToneModel.symbols, "en")
    text.push(lines[0])
    text.next_document()
    text.push(lines[1])
    text.close()
    words, _ = text.take()
    whole = "\n".join(lines)
    assert [whole[word.start_char : word.stop_char] for word in words] == ["One", "two", "Three"]


def test_a_dialogue_in_ssml_has_words(tts: TTS) -> None:
    segments = (Segment("<speak>who <mark name='m'/>is it</speak>"), Segment("<speak>me</speak>"))
    audio = tts.speak(list(segments), input_type="ssml", word_timestamps=True)
    assert [word.text for word in audio.words] == ["who", "is", "it", "me"]
    assert audio.words[-1].start_s > audio.words[-2].end_s
