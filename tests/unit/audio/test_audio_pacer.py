"""Speech is played at the speed asked for, part by part, and pauses keep their length."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.audio.encode import Encoder
from rhapsode.audio.pacer import Pacer
from rhapsode.audio.resample import Resampler
from rhapsode.audio.tempo import Tempo

RATE = 24_000


def paced(speed: float, parts: list[tuple[np.ndarray, float, bool]], size: int) -> np.ndarray:
    """The parts, cut into chunks of a size, at a speed."""
    pacer = Pacer(speed, RATE)
    out = []
    for samples, pace, is_pause in parts:
        chunks = range(0, samples.shape[1], size)
        out += [pacer.write(samples[:, i : i + size], pace, is_pause) for i in chunks]
    return np.concatenate([*out, pacer.close()], axis=1)


def test_without_parts_it_is_a_change_of_tempo(streamed, noise):
    samples = noise(20_000)
    assert np.array_equal(paced(1.3, [(samples, 1.0, False)], 999), streamed(Tempo(1.3, RATE), samples, [])[:, :])


def test_a_pause_is_exact_silence_of_its_own_length_at_any_speed(tone):
    speech, pause = tone(440, 0.5), np.zeros((1, 12_000), np.float32)
    out = paced(2.0, [(speech, 1.0, False), (pause, 1.0, True), (speech, 1.0, False)], 1_920)
    assert out.shape[1] == 6_000 + 12_000 + 6_000
    assert not out[:, 6_000:18_000].any()
    assert np.abs(out[:, 19_000:23_000]).max() > 0.1


def test_each_part_has_its_own_pace(tone):
    speech = tone(440, 0.5)
    out = paced(1.0, [(speech, 1.0, False), (speech, 2.0, False), (speech, 0.5, False)], 1_000)
    assert out.shape[1] == 12_000 + 6_000 + 24_000
    assert np.array_equal(out[:, :12_000], speech)


def test_pace_and_speed_together_stay_within_what_can_be_played(tone):
    assert paced(4.0, [(tone(440, 0.5), 4.0, False)], 5_000).shape[1] == 3_000


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 9_000), st.sampled_from([0.5, 1.0, 1.7]))
def test_how_speech_is_cut_changes_nothing(size: int, speed: float):
    rng = np.random.default_rng(1)
    parts = [
        (rng.standard_normal((1, n)).astype(np.float32) * 0.1 * (not pause), pace, pause)
        for n, pace, pause in ((5_000, 1.0, False), (700, 1.0, True), (4_001, 1.5, False), (3_000, 1.0, False))
    ]
    assert np.array_equal(paced(speed, parts, size), paced(speed, parts, 10**6))


def test_speech_can_be_slowed_resampled_and_encoded_in_one_stream(tone, peak_hz):
    pacer, resampler = Pacer(0.5, 24_000), Resampler(24_000, 16_000)
    encoder = Encoder("wav", 16_000)
    samples = tone(440, 1.0)
    pieces = [pacer.write(samples[:, i : i + 1_920]) for i in range(0, 24_000, 1_920)]
    data = b"".join(encoder.write(resampler.write(piece)) for piece in [*pieces, pacer.close()])
    data += encoder.write(resampler.close()) + encoder.close()
    with wave.open(io.BytesIO(data)) as file:
        heard = np.frombuffer(file.readframes(10**6), dtype="<i2") / 32768
    assert heard.size == pytest.approx(32_000, abs=1)
    assert peak_hz(heard, 16_000) == pytest.approx(440, rel=0.02)


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.5])
def test_it_knows_when_a_moment_is_heard(tone, speed):
    speech, pause = tone(440, 0.5), np.zeros((1, 12_000), np.float32)
    pacer = Pacer(speed, RATE)
    for samples, pace, is_pause in ((speech, 1.0, False), (pause, 1.0, True), (speech, 2.0, False)):
        pacer.write(samples, pace, is_pause)
    before_s, after_s = 0.5 / speed, 0.5 / speed + 0.5
    assert pacer.heard_s(0.25) == pytest.approx(before_s / 2)
    assert pacer.heard_s(0.75) == pytest.approx(before_s + 0.25, abs=1e-4)
    assert pacer.heard_s(1.0) == pytest.approx(after_s, abs=1e-4)
    assert pacer.heard_s(1.5) == pytest.approx(after_s + 0.5 / speed / 2, abs=1e-4)
