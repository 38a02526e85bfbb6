from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.audio.clip import Audio
from rhapsode.audio.finish import Finish
from rhapsode.audio.leveler import Leveler
from rhapsode.audio.limiter import CEILING, Limiter
from rhapsode.audio.loudness import integrated_loudness
from rhapsode.errors import InvalidRequest
from rhapsode.types import AudioChunk, SpeechRequest

RATE = 24_000
CLIPS = Path(__file__).parents[3] / "docs" / "listen"


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return Audio.open(CLIPS / "09-heart-long.opus", sample_rate=RATE).samples


def reference_loudness(samples: np.ndarray) -> float:
    """The standard as it is written: two filters in time, then blocks of 400 ms every 100 ms, gated twice."""
    shelf = tuned(1681.9744509555319, 0.7071752369554196, 10 ** (3.99984385397334 / 20))
    high_pass = tuned(38.13547087602444, 0.5003270373238773, None)
    weighted = filtered(filtered(samples[0].astype(float).tolist(), *shelf), *high_pass)
    step = RATE // 10
    blocks = np.array(
        [np.mean(np.square(weighted[i : i + 4 * step])) for i in range(0, len(weighted) - 4 * step + 1, step)]
    )
    levels = -0.691 + 10 * np.log10(np.maximum(blocks, 1e-12))
    loud = blocks[levels > -70]
    relative = -0.691 + 10 * math.log10(loud.mean()) - 10
    return -0.691 + 10 * math.log10(blocks[(levels > -70) & (levels > relative)].mean())


def tuned(hz: float, q: float, gain: float | None) -> tuple[list[float], list[float]]:
    k = math.tan(math.pi * hz / RATE)
    a0 = 1 + k / q + k * k
    a = [1.0, 2 * (k * k - 1) / a0, (1 - k / q + k * k) / a0]
    if gain is None:
        return [1.0, -2.0, 1.0], a
    band = gain**0.4996667741545416
    return [(gain + band * k / q + k * k) / a0, 2 * (k * k - gain) / a0, (gain - band * k / q + k * k) / a0], a


def filtered(values: list[float], b: list[float], a: list[float]) -> list[float]:
    out, first, second = [], 0.0, 0.0
    for x in values:
        y = b[0] * x + first
        first, second = b[1] * x - a[1] * y + second, b[2] * x - a[2] * y
        out.append(y)
    return out


def leveled(samples: np.ndarray, loudness: float, lengths: list[int] | None = None) -> np.ndarray:
    leveler, out, at = Leveler(loudness, RATE, samples.shape[0]), [], 0
    for length in [*(lengths or []), samples.shape[1]]:
        out.append(leveler.write(samples[:, at : at + length]))
        at += length
    return np.concatenate([*out, leveler.close()], axis=1)


# --- measuring ---


def test_a_sine_of_full_scale_has_the_loudness_that_the_standard_says(tone):
    assert integrated_loudness(tone(997, 3, RATE, level=1.0), RATE) == pytest.approx(-3.01, abs=0.05)
    assert integrated_loudness(tone(997, 3, 48_000, level=0.1), 48_000) == pytest.approx(-23.01, abs=0.05)


def test_channels_add_up(noise):
    one = noise(RATE)
    both = np.concatenate((one, one))
    assert integrated_loudness(both, RATE) - integrated_loudness(one, RATE) == pytest.approx(3.01, abs=0.01)


def test_speech_is_as_loud_as_the_filters_of_the_standard_say(speech):
    part = speech[:, : 4 * RATE]
    assert integrated_loudness(part, RATE) == pytest.approx(reference_loudness(part), abs=0.15)


def test_speech_is_as_loud_as_pyloudnorm_says(speech):
    pyloudnorm = pytest.importorskip("pyloudnorm")
    expected = pyloudnorm.Meter(RATE).integrated_loudness(speech.T.astype(float))
    assert integrated_loudness(speech, RATE) == pytest.approx(expected, abs=0.15)


def test_pauses_do_not_count(speech):
    paused = np.concatenate((speech, np.zeros((1, 10 * RATE), np.float32)), axis=1)
    assert integrated_loudness(paused, RATE) == pytest.approx(integrated_loudness(speech, RATE), abs=0.2)


def test_silence_has_no_loudness():
    assert integrated_loudness(np.zeros((1, RATE), np.float32), RATE) == -math.inf
    assert integrated_loudness(np.ones((1, 100), np.float32), RATE) == -math.inf


# --- levelling ---


@pytest.mark.parametrize("target", [-23.0, -16.0])
@pytest.mark.parametrize("level_db", [-10.0, 0.0, 12.0])
def test_five_seconds_of_speech_come_to_the_loudness_asked_for(speech, target, level_db):
    """However loud the model spoke: from -36 to -14 LUFS."""
    given = speech[:, : 5 * RATE] * np.float32(10 ** (level_db / 20))
    assert integrated_loudness(leveled(given, target), RATE) == pytest.approx(target, abs=1.5)


@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(0, 30_000), max_size=12))
def test_the_chunks_change_nothing(speech, lengths):
    part = speech[:, : 3 * RATE]
    assert np.array_equal(leveled(part, -16.0, lengths), leveled(part, -16.0))


def test_nothing_is_delayed(speech):
    leveler = Leveler(-16.0, RATE)
    assert [leveler.write(speech[:, at : at + 777]).shape for at in range(0, 7_770, 777)] == [(1, 777)] * 10
    assert leveler.close().shape == (1, 0)


def test_nothing_clips(speech):
    assert np.abs(leveled(speech * 20, -10.0)).max() <= CEILING


def test_the_gain_moves_slowly(speech):
    with np.errstate(divide="ignore", invalid="ignore"):
        gain_db = 20 * np.log10((leveled(speech, -23.0) / speech)[0][np.abs(speech[0]) > 0.001])
    late = gain_db[len(gain_db) // 2 :]
    assert late.max() - late.min() < 2.0


def test_silence_stays_silent_and_does_not_raise_the_gain(speech):
    quiet = np.zeros((1, 5 * RATE), np.float32)
    assert not leveled(quiet, -16.0).any()
    after = leveled(np.concatenate((quiet, speech), axis=1), -16.0)[:, 5 * RATE :]
    alone = integrated_loudness(leveled(speech, -16.0), RATE)
    assert integrated_loudness(after, RATE) == pytest.approx(alone, abs=0.5)  # the blocks at its edge are half silent


@pytest.mark.parametrize("loudness", [0.0, -80.0, math.nan])
def test_a_loudness_that_speech_cannot_have_is_refused(loudness):
    with pytest.raises(InvalidRequest, match="between -40 and -10"):
        Leveler(loudness, RATE)


@pytest.mark.parametrize("length", [RATE // 7, 10 * RATE])
def test_a_volume_multiplies_samples_and_loud_ones_are_limited(tone, length: int):
    samples = tone(440, 1.0, level=0.5).astype(np.float32)

    def finished(volume: float) -> np.ndarray:
        finish = Finish(SpeechRequest("Hello.", volume=volume), RATE, 1, 1)
        pieces = [samples[:, at : at + length] for at in range(0, samples.shape[1], length)]
        return np.concatenate([*(finish.write([AudioChunk(piece, RATE)]) for piece in pieces), finish.close()], axis=1)

    assert np.array_equal(finished(1.0), samples)
    assert np.array_equal(finished(0.5), samples * np.float32(0.5))
    assert np.abs(finished(1.5) - samples * 1.5).max() < 1e-6
    assert 0.5 < np.abs(finished(8.0)).max() <= CEILING
    assert not finished(0.0).any()


def test_the_limiter_leaves_soft_sound_alone_and_recovers_after_a_peak(tone):
    soft = tone(440, 1.0, level=0.5)
    assert np.array_equal(Limiter(RATE).write(soft), soft)
    limiter = Limiter(RATE)
    assert np.abs(limiter.write(tone(440, 0.1, level=3.0))).max() <= CEILING
    assert np.array_equal(limiter.write(soft)[:, RATE // 2 :], soft[:, RATE // 2 :])
