"""The teacher's voice in step with the frames: every frame begins with a pulse, and the pitch hardly moves."""

import numpy as np
import pytest

from pulses import HOP, RATE, SPACING, aligned, in_step, pitch, pulse_train


def melody(seconds: float = 2.0) -> np.ndarray:
    """A pitch that rises and falls, with a pause in the middle."""
    at = np.linspace(0, 1, int(seconds * RATE / SPACING))
    f0 = 190 + 50 * np.sin(5 * at)
    f0[(at > 0.4) & (at < 0.55)] = 0
    return f0.astype(np.float32)


@pytest.mark.parametrize("start", [0, 700, 5 * HOP + 1])
def test_every_voiced_frame_begins_with_a_pulse(start: int) -> None:
    curve = pitch(melody())
    phase = in_step(curve, start)
    begins = np.arange(-start % HOP, len(curve), HOP)
    voiced = begins[curve[begins] > 0]
    assert len(voiced) > 15
    np.testing.assert_allclose(phase[voiced], np.round(phase[voiced]), atol=1e-6)


def test_the_pitch_moves_by_half_a_period_in_a_frame_at_most() -> None:
    curve = pitch(melody())
    bent = np.diff(in_step(curve, 0)) * RATE
    inside = (curve[1:] > 0) & (curve[:-1] > 0)
    assert np.abs(bent - curve[1:])[inside].max() <= 0.5 * RATE / HOP + 1e-6


def test_a_pulse_is_where_a_period_begins() -> None:
    curve = np.full(RATE, 200.0)
    pulses = pulse_train(curve, in_step(curve, 0))
    largest = np.flatnonzero(pulses > 0.9 * pulses.max())
    assert (np.diff(largest) == RATE // 200).all()
    assert not pulse_train(np.zeros(100), np.zeros(100)).any()


def test_a_phase_known_at_few_points_meets_the_frames_too() -> None:
    f0 = melody(4.0)
    cycles = np.cumsum(f0.astype(np.float64)) * SPACING / RATE
    moved = aligned(cycles, f0 > 10, SPACING)
    begins = np.arange(0, len(f0) * SPACING, HOP)
    begins = begins[f0[begins // SPACING] > 10]
    phase = np.interp(begins, (np.arange(len(f0)) + 0.5) * SPACING, moved)
    apart = np.abs(phase - np.round(phase))
    assert len(begins) > 30
    assert np.median(apart) < 0.02
    assert apart.max() < 0.1
