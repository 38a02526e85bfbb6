"""What holds for everyone who listens, and for text that is appended while it is spoken."""

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from rhapsode.engine import Engine, Speech
from rhapsode.errors import InvalidRequest
from rhapsode.testing.subject import LONG, Subject, assert_all_free, hear, outcome_of, speak
from rhapsode.types import FinishReason, Samples


class TestAppendedText:
    def open(self, subject: Subject, engine: Engine, **wishes: Any) -> Speech:
        if not engine.spec.can.text_stream:
            pytest.skip("this family wants its whole text first")
        return engine.submit(subject.request("", text_open=True, **wishes))

    @pytest.mark.parametrize("pause_s", [0.0, 0.01])
    def test_text_appended_word_by_word_sounds_like_the_whole(
        self, subject: Subject, engine: Engine, pause_s: float
    ) -> None:
        for text in subject.texts if LONG else subject.texts[:2] if pause_s else subject.texts[2:]:
            whole = speak(engine, subject.request(text))
            speech = self.open(subject, engine)
            for word in text.split(" "):
                speech.append(word if word == text.split(" ")[0] else f" {word}")
                time.sleep(pause_s)
            speech.finish_text()
            assert subject.same(hear(speech), whole)

    def test_waiting_for_text_blocks_nobody(self, subject: Subject, engine: Engine) -> None:
        waiting = self.open(subject, engine)
        for text in subject.texts:
            assert speak(engine, subject.request(text)).shape[1] > 0
        waiting.append(subject.texts[0])
        waiting.finish_text()
        assert subject.same(hear(waiting), speak(engine, subject.request(subject.texts[0])))

    def test_it_can_be_aborted_while_it_waits(self, subject: Subject, engine: Engine) -> None:
        waiting = self.open(subject, engine)
        time.sleep(0.02)
        waiting.abort()
        assert_all_free(engine)

    def test_closed_text_cannot_be_appended_to(self, subject: Subject, engine: Engine) -> None:
        speech = self.open(subject, engine)
        speech.append(" ".join(subject.texts * 4))
        speech.finish_text()
        with pytest.raises(InvalidRequest, match="closed"):
            speech.append("more")
        speech.abort()
        speech.append("more")  # it is over: nobody minds
        assert_all_free(engine)

    def test_appended_text_is_bounded(self, subject: Subject, engine: Engine) -> None:
        speech = self.open(subject, engine)
        with pytest.raises(InvalidRequest, match="characters"):
            speech.append("x" * (engine.deployment.limits.max_text_chars + 1))
        speech.abort()
        assert_all_free(engine)


class TestListening:
    def test_from_asyncio_many_at_once(self, subject: Subject, engine: Engine) -> None:
        async def listen(text: str) -> Samples:
            chunks = [chunk.samples async for chunk in engine.submit(subject.request(text))]
            return np.concatenate(chunks, axis=1)

        async def all_of_them() -> list[Samples]:
            return await asyncio.gather(*(listen(text) for text in subject.texts))

        for text, samples in zip(subject.texts, asyncio.run(all_of_them()), strict=True):
            assert subject.same(samples, speak(engine, subject.request(text)))

    def test_the_outcome_tells_how_it_went(self, subject: Subject, engine: Engine) -> None:
        speech = engine.submit(subject.request(subject.texts[2]))
        samples = hear(speech)
        outcome = outcome_of(speech)
        assert outcome.finish_reason == FinishReason.STOP
        assert outcome.audio_s == pytest.approx(samples.shape[1] / engine.spec.sample_rate)
        assert outcome.first_audio_s is not None
        assert 0 <= outcome.queued_s <= outcome.first_audio_s <= outcome.total_s
        assert outcome.frames > 0
        assert outcome.error is None
