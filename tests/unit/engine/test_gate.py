"""Audio waits at the gate until it is aligned, and can be cut there."""

import numpy as np

from rhapsode.engine.gate import AHEAD_S, FADE_S, EndGate
from rhapsode.types import AudioChunk

RATE = 1000
AHEAD, FADE = round(AHEAD_S * RATE), round(FADE_S * RATE)
SPEECH = np.linspace(0.1, 1.0, 1000, dtype=np.float32)[None]


class Gated:
    def __init__(self) -> None:
        self.chunks: list[AudioChunk] = []
        self.gate = EndGate(self.chunks.append, RATE)

    @property
    def samples(self) -> np.ndarray:
        return np.concatenate([chunk.samples for chunk in self.chunks], axis=1)


def test_the_first_audio_does_not_wait() -> None:
    gated = Gated()
    gated.gate.put(AudioChunk(SPEECH[:, :100], RATE))
    assert np.array_equal(gated.samples, SPEECH[:, :100])


def test_audio_far_ahead_of_the_alignment_waits_for_it() -> None:
    gated = Gated()
    gated.gate.put(AudioChunk(SPEECH, RATE))
    assert gated.samples.shape[1] == AHEAD
    gated.gate.heard(0.5)
    assert gated.samples.shape[1] == 500 + AHEAD
    gated.gate.open()
    assert np.array_equal(gated.samples, SPEECH)


def test_a_cut_drops_what_comes_later_and_fades() -> None:
    gated = Gated()
    gated.gate.put(AudioChunk(SPEECH, RATE))
    assert gated.gate.cut(0.6) == 0.6
    gated.gate.put(AudioChunk(SPEECH, RATE))
    gated.gate.open()
    assert gated.samples.shape[1] == 600
    assert np.array_equal(gated.samples[:, : 600 - FADE], SPEECH[:, : 600 - FADE])
    assert gated.samples[0, -1] == 0.0


def test_what_has_passed_stays_and_a_pause_follows() -> None:
    gated = Gated()
    gated.gate.put(AudioChunk(SPEECH, RATE))
    assert gated.gate.cut(0.1, pause_s=0.5) == AHEAD_S + 0.5
    assert gated.chunks[-1].is_pause
    assert not gated.chunks[-1].samples.any()
