from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.audio.join import Joiner
from rhapsode.audio.samples import silence

RATE = 24_000


def piece(tone, head_s, tail_s, hz=300.0, seconds=0.4, channels=1):
    quiet = [silence(channels, round(s * RATE)) for s in (head_s, tail_s)]
    return np.concatenate((quiet[0], tone(hz, seconds, RATE, channels), quiet[1]), axis=1)


def gaps_s(samples):
    """The stretches of near-silence between loud samples, in seconds."""
    loud = np.flatnonzero(np.abs(samples[0]) > 0.003)
    steps = np.diff(loud)
    return [float(s) / RATE for s in steps if s > 0.02 * RATE]


@pytest.mark.parametrize(("tail_s", "head_s"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.7), (1.5, 1.5), (0.05, 0.02)])
@pytest.mark.parametrize("pause_s", [0.1, 0.25, 0.6])
def test_the_pause_is_the_same_however_much_silence_the_pieces_bring(tone, tail_s, head_s, pause_s):
    joiner = Joiner(RATE, pause_s=pause_s)
    out = np.concatenate((joiner.add(piece(tone, 0.3, tail_s)), joiner.add(piece(tone, head_s, 0.3))), axis=1)
    assert gaps_s(out) == [pytest.approx(pause_s, abs=0.025)]


def test_there_is_no_pause_before_the_first_piece_or_after_the_last(tone):
    joiner = Joiner(RATE)
    out = np.concatenate((joiner.add(piece(tone, 2.0, 2.0)), joiner.close()), axis=1)
    loud = np.flatnonzero(np.abs(out[0]) > 0.1)
    assert loud[0] < 0.05 * RATE
    assert out.shape[1] - loud[-1] < 0.1 * RATE
    assert 0.4 * RATE <= out.shape[1] <= 0.55 * RATE


def test_a_pause_inside_a_piece_is_kept(tone):
    spoken = np.concatenate((piece(tone, 0, 0.8), piece(tone, 0, 0)), axis=1)
    assert gaps_s(Joiner(RATE).add(spoken)) == [pytest.approx(0.8, abs=0.01)]


def test_pieces_that_start_and_end_loud_are_joined_without_a_click():
    joiner = Joiner(RATE)
    loud = np.full((1, 6_000), 0.5, dtype=np.float32)
    out = np.concatenate((silence(1, 1), joiner.add(loud), joiner.add(loud), silence(1, 1)), axis=1)
    assert np.abs(np.diff(out)).max() < 0.02
    assert out.max() == 0.5


def test_the_middle_of_a_piece_is_not_touched(tone):
    spoken = tone(300, 0.5)
    out = Joiner(RATE).add(spoken)
    assert np.array_equal(out[:, 200:-200], spoken[:, 200:-200])


def test_speech_is_returned_before_its_piece_has_ended(tone):
    joiner = Joiner(RATE)
    spoken = tone(300, 0.5)
    assert joiner.write(spoken[:, :1_920]).shape[1] >= 1_920 - 0.005 * RATE
    assert joiner.write(spoken[:, 1_920:3_840]).shape[1] == 1_920


def test_a_silent_piece_is_dropped_and_leaves_one_pause(tone):
    joiner = Joiner(RATE)
    out = [joiner.add(piece(tone, 0, 0.1)), joiner.add(silence(1, RATE)), joiner.add(piece(tone, 0.1, 0))]
    assert out[1].shape == (1, 0)
    assert gaps_s(np.concatenate(out, axis=1)) == [pytest.approx(0.25, abs=0.025)]


def test_samples_that_are_not_numbers_are_not_taken_for_silence():
    broken = silence(1, 2_400)
    broken[0, 1_200] = np.nan
    assert np.isnan(Joiner(RATE).add(broken)).any()


def test_a_click_far_below_the_threshold_counts_as_silence_and_quiet_speech_does_not(tone):
    assert Joiner(RATE).add(tone(300, 0.3, level=0.002)).shape[1] == 0
    assert Joiner(RATE).add(tone(300, 0.3, level=0.008)).shape[1] > 0.25 * RATE


@settings(max_examples=60, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.floats(0, 0.4), st.floats(0, 0.2), st.floats(0, 0.4)), min_size=1, max_size=4),
    chunk=st.integers(90, 3_000),
    channels=st.integers(1, 2),
)
def test_the_result_does_not_depend_on_the_chunks(tone, shapes, chunk, channels):
    pieces = [piece(tone, head, tail, 300, speech, channels) for head, speech, tail in shapes]
    whole, parts = Joiner(RATE, channels), Joiner(RATE, channels)
    expected = np.concatenate([whole.add(p) for p in pieces], axis=1)
    out = []
    for p in pieces:
        out += [parts.write(p[:, i : i + chunk]) for i in range(0, p.shape[1], chunk)]
        out.append(parts.end_piece())
    assert np.array_equal(np.concatenate(out, axis=1), expected)


def test_the_callers_samples_are_not_changed(tone):
    spoken = piece(tone, 0.1, 0.1)
    before = spoken.copy()
    Joiner(RATE).add(spoken)
    assert np.array_equal(spoken, before)
