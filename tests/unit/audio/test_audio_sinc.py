"""The windowed sinc resampler equals the formula it is named for, and does what a resampler should."""

from __future__ import annotations

import time
from math import ceil

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rhapsode.audio.sinc import resample_sinc

RATIOS = [(44_100, 24_000), (48_000, 16_000), (22_050, 44_100), (16_000, 24_000), (24_000, 22_050), (7, 5), (101, 97)]


def by_formula(samples, from_rate, to_rate):
    """Ideal low-pass interpolation with a Hann window six zero crossings wide, one output sample at a time."""
    cutoff = 0.99 * min(from_rate, to_rate)  # twice the cutoff frequency: zero crossings per second
    seconds = np.arange(samples.shape[1]) / from_rate
    out = np.zeros((samples.shape[0], ceil(samples.shape[1] * to_rate / from_rate)))
    for j in range(out.shape[1]):
        crossings = (seconds - j / to_rate) * cutoff
        hann = np.where(np.abs(crossings) < 6, 0.5 + 0.5 * np.cos(np.pi * crossings / 6), 0.0)
        out[:, j] = (samples * np.sinc(crossings) * hann).sum(axis=1) * (cutoff / from_rate)
    return out


@pytest.mark.parametrize(("from_rate", "to_rate"), RATIOS)
def test_the_samples_equal_the_formula(noise, from_rate, to_rate):
    samples = noise(500, channels=2).astype(np.float64)
    found = resample_sinc(samples, from_rate, to_rate)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, by_formula(samples, from_rate, to_rate), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("from_rate", "to_rate"), RATIOS)
def test_float32_samples_give_the_same_result_to_rounding(noise, from_rate, to_rate):
    samples = noise(9_000, level=1.0)
    found = resample_sinc(samples, from_rate, to_rate)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, resample_sinc(samples.astype(np.float64), from_rate, to_rate), rtol=0, atol=1e-6)


@settings(max_examples=80, deadline=None)
@given(length=st.integers(0, 400), from_rate=st.integers(1, 400), to_rate=st.integers(1, 400))
@example(length=0, from_rate=3, to_rate=2)
@example(length=294, from_rate=44_100, to_rate=24_000)
@example(length=1, from_rate=192_000, to_rate=4_001)
def test_the_length_is_rounded_up(length, from_rate, to_rate):
    found = resample_sinc(np.ones((2, length), np.float32), from_rate, to_rate)
    assert found.shape == (2, -(-length * to_rate // from_rate))


def test_equal_rates_return_the_same_samples(noise):
    samples = noise(1_000, 2)
    assert resample_sinc(samples, 24_000, 24_000) is samples


@pytest.mark.parametrize(("from_rate", "to_rate"), RATIOS)
def test_a_constant_stays_what_it_is(from_rate, to_rate):
    found = resample_sinc(np.full((1, 6_000), 0.5), from_rate, to_rate)
    np.testing.assert_allclose(found[:, 200:-200], 0.5, rtol=0.004)  # the ripple of a window this short


@pytest.mark.parametrize(("from_rate", "to_rate"), [(44_100, 24_000), (48_000, 16_000), (22_050, 44_100)])
def test_each_channel_keeps_its_pitch_and_level(tone, peak_hz, from_rate, to_rate):
    found = resample_sinc(tone(440, 1.0, from_rate, channels=2), from_rate, to_rate)
    assert peak_hz(found[0], to_rate) == pytest.approx(440, abs=2)
    assert peak_hz(found[1], to_rate) == pytest.approx(880, abs=2)
    expected = tone(440, 1.0, to_rate, channels=2)
    np.testing.assert_allclose(found[:, 200:-200], expected[:, 200:-200], rtol=0, atol=0.002)


def test_frequencies_above_the_new_nyquist_do_not_alias(tone):
    found = resample_sinc(tone(7_000, 0.5, 24_000), 24_000, 8_000)
    assert np.abs(found[:, 200:-200]).max() < 0.003


@pytest.mark.parametrize("from_rate", [44_100, 44_101])
def test_ten_seconds_take_a_fraction_of_a_second_even_where_the_rates_share_no_divisor(noise, from_rate):
    samples = noise(10 * from_rate)
    start = time.process_time()
    resample_sinc(samples, from_rate, 24_000)
    assert time.process_time() - start < 0.5  # found: 0.02 and 0.04


@pytest.mark.parametrize("samples", [np.zeros(5, np.float32), np.zeros((1, 5), np.int16)])
def test_other_shapes_and_types_are_refused(samples):
    with pytest.raises(ValueError, match=r"float samples of shape \[channels, n\]"):
        resample_sinc(samples, 2, 1)


@pytest.mark.parametrize("rates", [(0, 8_000), (8_000, -1)])
def test_a_rate_that_is_not_positive_is_refused(rates):
    with pytest.raises(ValueError, match="positive"):
        resample_sinc(np.zeros((1, 5)), *rates)
