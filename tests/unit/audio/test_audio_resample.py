from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.audio.resample import Resampler, mono, resample
from rhapsode.types import Clip

RATES = st.sampled_from([8_000, 16_000, 22_050, 24_000, 44_100, 48_000])


@settings(max_examples=60, deadline=None)
@given(
    from_rate=RATES,
    to_rate=RATES,
    channels=st.integers(1, 2),
    length=st.integers(0, 6_000),
    lengths=st.lists(st.integers(0, 1_500), max_size=8),
)
def test_the_result_does_not_depend_on_the_chunks(streamed, noise, from_rate, to_rate, channels, length, lengths):
    samples = noise(length, channels)
    whole = resample(samples, from_rate, to_rate)
    assert np.array_equal(streamed(Resampler(from_rate, to_rate, channels), samples, lengths), whole)
    assert abs(whole.shape[1] - round(length * to_rate / from_rate)) <= 1


def test_equal_rates_return_the_same_samples(noise):
    samples = noise(1_000, 2)
    assert resample(samples, 24_000, 24_000).tobytes() == samples.tobytes()


@pytest.mark.parametrize(("from_rate", "to_rate"), [(24_000, 48_000), (48_000, 24_000), (22_050, 16_000)])
def test_each_channel_keeps_its_pitch_and_level(tone, peak_hz, from_rate, to_rate):
    out = resample(tone(440, 1.0, from_rate, channels=2), from_rate, to_rate)
    assert peak_hz(out[0], to_rate) == pytest.approx(440, abs=2)
    assert peak_hz(out[1], to_rate) == pytest.approx(880, abs=2)
    assert np.abs(out[:, 1_000:-1_000]).max() == pytest.approx(0.3, abs=0.003)


def test_frequencies_above_the_new_nyquist_do_not_alias(tone):
    out = resample(tone(7_000, 0.5, 24_000), 24_000, 8_000)
    assert np.abs(out[:, 200:-200]).max() < 0.001


def test_samples_come_out_long_before_the_end(noise):
    resampler = Resampler(24_000, 48_000)
    assert resampler.write(noise(2_400)).shape[1] > 3_000


def test_closing_twice_gives_nothing_more_and_writing_after_is_refused(noise):
    resampler = Resampler(24_000, 48_000)
    resampler.write(noise(100))
    assert resampler.close().shape[1] > 0
    assert resampler.close().shape == (1, 0)
    with pytest.raises(ValueError, match="closed"):
        resampler.write(noise(100))


@settings(max_examples=60, deadline=None)
@given(from_rate=RATES, to_rate=RATES, length=st.integers(0, 3_000))
def test_a_reference_counts_a_fraction_of_a_sample_as_one(noise, from_rate, to_rate, length):
    found = mono(Clip(noise(length, channels=2), from_rate), to_rate)
    assert found.shape == (-(-length * to_rate // from_rate),)


def test_a_reference_is_the_mean_of_its_channels(tone):
    stereo = tone(440, 0.2, 48_000, channels=2)
    found = mono(Clip(stereo, 48_000), 16_000)
    np.testing.assert_allclose(found, resample(stereo, 48_000, 16_000).mean(axis=0), rtol=0, atol=1e-6)
