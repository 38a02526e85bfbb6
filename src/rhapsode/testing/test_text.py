"""Rules about text that hold for every family: pauses, paces and words that are written out."""

import time
from dataclasses import replace
from itertools import pairwise
from xml.sax.saxutils import escape

import numpy as np
import pytest

from rhapsode.engine import Engine, Speech
from rhapsode.errors import InvalidRequest, Unavailable
from rhapsode.testing.subject import Subject, assert_all_free, hear, speak
from rhapsode.types import AudioChunk, Samples, Segment, Voice

PAUSE_S = 0.25


def document(subject: Subject) -> str:
    """A pause before, between and after two sentences, the second of them faster."""
    first, second = escape(subject.texts[0]), escape(subject.texts[3])
    pause = f"<break time='{PAUSE_S * 1000:g}ms'/>"
    return f"<speak>{pause}{first}{pause}<prosody rate='1.5'>{second}</prosody>{pause}</speak>"


def chunks_of(speech: Speech) -> list[AudioChunk]:
    return list(iter(lambda: speech.get(timeout_s=20), None))


class TestDialogues:
    def test_segments_are_spoken_in_turn_with_exact_pauses(self, subject: Subject, engine: Engine) -> None:
        request = subject.request("")
        segments = tuple(Segment(text, request.voice, PAUSE_S) for text in (subject.texts[0], subject.texts[3]))
        chunks = chunks_of(engine.submit(replace(request, segments=segments)))
        pauses = [i for i, chunk in enumerate(chunks) if chunk.is_pause]
        assert len(pauses) == 2
        assert pauses[0] == 0
        assert {chunks[i].samples.shape[1] for i in pauses} == {round(PAUSE_S * engine.spec.sample_rate)}
        first, second = (chunks[pauses[0] + 1 : pauses[1]], chunks[pauses[1] + 1 :])
        alone = speak(engine, subject.request(subject.texts[0]))
        assert subject.same(np.concatenate([chunk.samples for chunk in first], axis=1), alone)
        assert max(np.abs(chunk.samples).max() for chunk in second) > 1e-3
        assert_all_free(engine)

    def test_every_segment_has_its_voice(self, subject: Subject, engine: Engine) -> None:
        if len(engine.info.voices) < 2:
            pytest.skip("this family has no two presets")
        one, other = (Voice(name=name) for name in engine.info.voices[:2])

        def second_with(voice: Voice) -> Samples:
            segments = (Segment(subject.texts[0], one), Segment(subject.texts[0], voice))
            chunks = chunks_of(engine.submit(replace(subject.request("", voice=one), segments=segments)))
            start = max(i for i, chunk in enumerate(chunks) if chunk.is_pause)
            assert {chunk.speaker for chunk in chunks[start + 1 :]} == {int(voice is not one)}
            return np.concatenate([chunk.samples for chunk in chunks[start + 1 :]], axis=1)

        if engine.spec.one_voice:
            with pytest.raises(InvalidRequest, match="one voice only"):
                second_with(other)
            return
        try:
            same, changed = second_with(one), second_with(other)
        except Unavailable:
            pytest.skip("the second preset would have to be downloaded")
        assert same.shape != changed.shape or np.abs(same - changed).max() > 1e-3
        assert_all_free(engine)


class TestPauses:
    def test_a_pause_is_exact_silence_between_the_words(self, subject: Subject, engine: Engine) -> None:
        chunks = chunks_of(engine.submit(subject.request(document(subject), input_type="ssml")))
        pauses = [i for i, chunk in enumerate(chunks) if chunk.is_pause]
        assert len(pauses) == 3
        assert pauses[0] == 0
        assert pauses[2] == len(chunks) - 1
        for i in pauses:
            assert chunks[i].samples.shape[1] == round(PAUSE_S * engine.spec.sample_rate)
            assert not chunks[i].samples.any()
        spoken = [np.concatenate([c.samples for c in chunks[a + 1 : b]], axis=1) for a, b in pairwise(pauses)]
        assert all(np.abs(part).max() > 1e-3 for part in spoken)
        assert {chunk.pace for chunk in chunks[pauses[0] + 1 : pauses[1]]} == {1.0}
        assert {chunk.pace for chunk in chunks[pauses[1] + 1 : pauses[2]]} == {1.5}
        assert_all_free(engine)

    def test_the_first_words_sound_as_without_a_pause(self, subject: Subject, engine: Engine) -> None:
        alone = speak(engine, subject.request(subject.texts[0]))
        text = f"<speak>{escape(subject.texts[0])}<break time='100ms'/>{escape(subject.texts[3])}</speak>"
        heard = speak(engine, subject.request(text, input_type="ssml"))
        assert subject.same(heard[:, : alone.shape[1]], alone)

    @pytest.mark.parametrize("pause_s", [0.0, 0.01])
    def test_a_document_that_arrives_in_pieces_sounds_like_the_whole(
        self, subject: Subject, engine: Engine, pause_s: float
    ) -> None:
        if not engine.spec.can.text_stream:
            pytest.skip("this family wants its whole text first")
        text = document(subject)
        whole = speak(engine, subject.request(text, input_type="ssml"))
        speech = engine.submit(subject.request("", text_open=True, input_type="ssml"))
        for start in range(0, len(text), 9):
            speech.append(text[start : start + 9])
            time.sleep(pause_s)
        speech.finish_text()
        assert subject.same(hear(speech), whole)
        assert_all_free(engine)

    def test_neighbours_and_repetition_change_nothing(self, subject: Subject, engine: Engine) -> None:
        request = subject.request(document(subject), input_type="ssml")
        alone = speak(engine, request)
        together = [engine.submit(request) for _ in range(3)]
        assert all(subject.same(hear(speech), alone) for speech in together)
        assert_all_free(engine)

    def test_it_can_be_aborted_in_a_pause(self, subject: Subject, engine: Engine) -> None:
        speech = engine.submit(subject.request(document(subject), input_type="ssml"))
        speech.get(timeout_s=20)
        speech.abort()
        assert_all_free(engine)

    def test_a_wrong_document_is_refused_and_frees_everything(self, subject: Subject, engine: Engine) -> None:
        with pytest.raises(InvalidRequest, match="not supported"):
            engine.submit(subject.request("<speak><audio/></speak>", input_type="ssml"))
        if engine.spec.can.text_stream:
            speech = engine.submit(subject.request("", text_open=True, input_type="ssml"))
            speech.append("<speak>Hello ")
            with pytest.raises(InvalidRequest, match="not supported"):
                speech.append("<audio/>")
            with pytest.raises(InvalidRequest, match="not supported"):
                hear(speech)
        assert_all_free(engine)


class TestWords:
    def test_numbers_sound_like_their_words_where_that_is_asked_for(self, subject: Subject, engine: Engine) -> None:
        written, words = "It is 12 now.", "It is twelve now."
        said = speak(engine, subject.request(written, normalise=True, language="en"))
        assert subject.same(said, speak(engine, subject.request(words, normalise=False, language="en")))

    def test_a_lexicon_respells_words(self, subject: Subject, engine: Engine) -> None:
        said = speak(engine, subject.request("Say nginx now.", lexicon={"nginx": "engine x"}))
        assert subject.same(said, speak(engine, subject.request("Say engine x now.")))

    def test_a_number_that_arrives_in_two_pieces_is_one_number(self, subject: Subject, engine: Engine) -> None:
        if not engine.spec.can.text_stream:
            pytest.skip("this family wants its whole text first")
        speech = engine.submit(subject.request("", text_open=True, normalise=True, language="en"))
        for piece in ("It is 12", ".5", " now."):
            speech.append(piece)
        speech.finish_text()
        whole = engine.submit(subject.request("It is 12.5 now.", normalise=True, language="en"))
        assert subject.same(hear(speech), hear(whole))
