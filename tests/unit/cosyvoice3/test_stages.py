"""Flow and vocoder as stages of an engine: batched, paged, shared, and equal to one pass."""

import numpy as np
import pytest
import torch

from rhapsode.config import resolve
from rhapsode.engine import Engine, budget
from rhapsode.errors import GenerationFailed
from rhapsode.testing.subject import assert_all_free, hear
from rhapsode.types import SpeechRequest
from unit.cosyvoice3 import sound, tokens
from unit.cosyvoice3.test_vocoder import spoken
from unit.cosyvoice3.tokens import TOKENS, UNMASKED

TOLERANCE = 1e-6  # listeners get float32


def engine_of(spec=TOKENS, slots: int = 4, **settings) -> Engine:
    flags = {"dtype": "float64", "threads": 1, "limits": {"max_concurrency": slots, "max_positions": 96}, **settings}
    return Engine(spec, resolve(env={}, flags=flags)).start()


def request(text: str | int, voice: int | str = 0, **wishes) -> SpeechRequest:
    return SpeechRequest(str(text), **{"seed": 7, "instructions": str(voice), **wishes})


def expected(asked: SpeechRequest, masked: bool = True) -> np.ndarray:
    """One pass of the flow and one of the vocoder for each part."""
    net, hift, parts = sound.flow(), sound.hift(), []
    with torch.inference_mode():
        for part in asked.text.split():
            said = tokens.spoken_tokens(int(part), asked.seed)
            mel = sound.whole(net, tokens.voice(asked), said, masked=masked)
            parts.append(spoken(hift, mel, [len(mel)], tokens.still))
    return torch.cat(parts).numpy()


def assert_said(made: np.ndarray, asked: SpeechRequest, **how) -> None:
    wanted = expected(asked, **how)
    assert made.shape == (1, len(wanted))
    assert np.abs(made[0] - wanted).max() < TOLERANCE


@pytest.fixture(scope="module")
def engine():
    engine = engine_of()
    yield engine
    engine.stop()


def test_a_crowd_at_different_positions_is_spoken_as_if_each_were_alone(engine):
    shapes = zip((13, 9, 1, 22, 5, 17, 30), (0, 7, 4, 11, 6, 9, 2), strict=True)
    asked = [request(text, voice, seed=seed) for seed, (text, voice) in enumerate(shapes)]
    speeches = [engine.submit(one) for one in asked]
    for speech, one in zip(speeches, asked, strict=True):
        assert_said(hear(speech), one)
    assert_all_free(engine)


def test_chunks_of_a_voice_are_computed_once(engine):
    pool = engine.pipeline.stages["flow"]._memory.pool
    before = pool.shared_hits
    for seed in (1, 2):
        asked = request("6", 15, seed=seed)
        assert_said(hear(engine.submit(asked)), asked)
    assert pool.shared_hits - before == 3  # whole chunks of 4 tokens, less the look-ahead


def test_parts_start_afresh_after_the_voice(engine):
    asked = request("9 6 14", 9)
    assert_said(hear(engine.submit(asked)), asked)
    assert_all_free(engine)


@pytest.mark.slow
def test_requests_wait_for_pages_and_all_of_them_finish(monkeypatch):
    monkeypatch.setattr(budget, "USUAL_BLOCKS", 0)  # as few pages as one request may need
    monkeypatch.setattr(tokens, "CONTEXT_S", 1.0)
    monkeypatch.setattr("rhapsode.models.cosyvoice3.flow.parts.MOST_PROMPT_S", 0.5)
    engine = engine_of(slots=6)
    stage = engine.pipeline.stages["flow"]
    assert stage._memory.pool.total == 10
    waited, extend = [], stage._growth._extend

    def extend_or_wait(row, positions):
        waited.extend(() if (given := extend(row, positions)) else (row,))
        return given

    monkeypatch.setattr(stage._growth, "_extend", extend_or_wait)
    # They are longer than expected, so that pages run short midway.
    asked = [request("24", "7 4", seed=seed) for seed in range(6)]
    speeches = [engine.submit(one) for one in asked]
    for speech, one in zip(speeches, asked, strict=True):
        assert_said(hear(speech), one)
    assert waited
    assert_all_free(engine)
    assert stage._memory.pool.in_use == 0
    engine.stop()


def test_speech_past_the_context_is_an_error_and_others_go_on(monkeypatch):
    monkeypatch.setattr(tokens, "CONTEXT_S", 0.5)
    monkeypatch.setattr("rhapsode.models.cosyvoice3.flow.parts.MOST_PROMPT_S", 0.1)
    engine = engine_of()
    long, short = (engine.submit(request(text)) for text in ("40", "8"))
    with pytest.raises(GenerationFailed, match="longer than the 32 positions"):
        hear(long)
    assert_said(hear(short), request("8"))
    assert_all_free(engine)
    engine.stop()


def test_without_a_mask_a_request_is_upstreams_unmasked_pass():
    engine = engine_of(UNMASKED)
    asked = [request("13", 5, seed=1), request("7", 0, seed=2), request("4 9", 8, seed=3)]
    speeches = [engine.submit(one) for one in asked]
    for speech, one in zip(speeches, asked, strict=True):
        assert_said(hear(speech), one, masked=False)
    engine.stop()
