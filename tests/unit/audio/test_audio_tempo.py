from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.audio.tempo import Tempo
from rhapsode.errors import InvalidRequest

SPEEDS = [0.25, 0.4, 0.7, 0.9, 1.1, 1.5, 2.0, 3.0, 4.0]


@settings(max_examples=50, deadline=None)
@given(
    speed=st.floats(0.25, 4.0),
    channels=st.integers(1, 2),
    length=st.integers(0, 20_000),
    lengths=st.lists(st.integers(0, 4_000), max_size=12),
)
def test_the_result_does_not_depend_on_the_chunks_and_its_length_is_exact(
    streamed, noise, speed, channels, length, lengths
):
    samples = noise(length, channels)
    whole = streamed(Tempo(speed, 24_000, channels), samples, [])
    assert np.array_equal(streamed(Tempo(speed, 24_000, channels), samples, lengths), whole)
    assert whole.shape == (channels, round(length / speed))


@pytest.mark.parametrize("speed", [0.25, 0.5, 0.7])
def test_many_odd_chunks_give_the_same_slow_speech_as_one(streamed, tone, noise, speed):
    samples = tone(220, 3.0) + noise(72_000, level=0.1)
    lengths = np.random.default_rng(0).integers(1, 100, 900).tolist()
    whole = streamed(Tempo(speed, 24_000), samples, [])
    assert np.array_equal(streamed(Tempo(speed, 24_000), samples, lengths), whole)


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_pitch_of_each_channel_stays(streamed, tone, peak_hz, speed):
    out = streamed(Tempo(speed, 24_000, 2), tone(330, 2.0, channels=2), [])
    assert peak_hz(out[0]) == pytest.approx(330, rel=0.02)
    assert peak_hz(out[1]) == pytest.approx(660, rel=0.02)


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_burst_in_the_last_30_ms_is_still_there_at_the_end(streamed, tone, peak_hz, speed):
    burst = tone(2_000, 0.03, level=0.8)
    samples = np.concatenate((tone(200, 1.0, level=0.05), burst), axis=1)
    out = streamed(Tempo(speed, 24_000), samples, [5_000])[0]
    loud = np.flatnonzero(np.abs(out) > 0.4)
    assert loud[-1] - loud[0] > 0.6 * 0.03 * 24_000 / speed
    assert out.size - loud[-1] < 0.05 * 24_000
    assert peak_hz(out[loud[0] : loud[-1]]) == pytest.approx(2_000, rel=0.2)


def test_speed_one_returns_the_same_samples(streamed, noise):
    samples = noise(3_000)
    assert streamed(Tempo(1.0, 24_000), samples, [7, 100]).tobytes() == samples.tobytes()


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_samples_come_out_before_the_end(noise, speed):
    assert Tempo(speed, 24_000).write(noise(6_000)).shape[1] > 2_000


@pytest.mark.parametrize("speed", [0.0, 0.249, 4.001, -1.0, float("nan"), float("inf")])
def test_the_error_for_a_speed_out_of_range_names_the_range(speed):
    with pytest.raises(InvalidRequest, match=r"0\.25 and 4") as caught:
        Tempo(speed, 24_000)
    assert caught.value.param == "speed"


def test_closing_twice_gives_nothing_more_and_writing_after_is_refused(noise):
    tempo = Tempo(1.5, 24_000)
    tempo.write(noise(3_000))
    assert tempo.close().shape[1] > 0
    assert tempo.close().shape == (1, 0)
    with pytest.raises(ValueError, match="closed"):
        tempo.write(noise(10))
