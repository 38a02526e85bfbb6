import numpy as np
import pytest

from rhapsode.bench.serve.playback import Arrival, first_audible, play


def test_audio_that_comes_in_time_never_stalls():
    played = play([Arrival(0.1, 0.08), Arrival(0.15, 0.16), Arrival(0.3, 0.32)])
    assert (played.underruns, played.stalled_s) == (0, 0)
    assert played.gaps_s == pytest.approx((0.05, 0.15))
    assert played.least_left_s == pytest.approx(0.03)
    assert played.audio_s == pytest.approx(0.56)
    assert played.first_chunk_s == 0.08


def test_a_late_chunk_is_an_underrun_as_long_as_the_silence():
    played = play([Arrival(0.1, 0.08), Arrival(0.25, 0.08)])
    assert played.underruns == 1
    assert played.stalled_s == -played.least_left_s == pytest.approx(0.07)


def test_the_clock_goes_on_from_where_it_stalled():
    # 1.0 -> 1.1; dry until 1.3 -> 1.4; the third is there at 1.4 exactly: no second underrun.
    played = play([Arrival(1.0, 0.1), Arrival(1.3, 0.1), Arrival(1.4, 0.1), Arrival(1.6, 0.1)])
    assert played.underruns == 2
    assert played.stalled_s == pytest.approx(0.2 + 0.1)


def test_a_sample_is_heard_when_the_clock_reaches_it():
    played = play([Arrival(1.0, 0.1), Arrival(1.3, 0.1)])
    assert played.played_at_s(0.0) == pytest.approx(1.0)
    assert played.played_at_s(0.05) == pytest.approx(1.05)
    assert played.played_at_s(0.15) == pytest.approx(1.35)


def test_a_buffer_in_hand_delays_what_comes_early():
    played = play([Arrival(1.0, 0.5), Arrival(1.1, 0.5)])
    assert played.played_at_s(0.6) == pytest.approx(1.6)


def test_the_first_audible_sample():
    quiet = np.full(10, 300, np.int16)  # below 1% of full scale
    assert first_audible(quiet) is None
    assert first_audible(np.concatenate([quiet, [0, -20_000, 5]]).astype(np.int16)) == 11
    assert first_audible(np.array([0, -32768], np.int16)) == 1
