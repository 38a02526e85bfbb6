"""What differs between two implementations is said in words, and what is the same is not."""

from dataclasses import replace

import numpy as np
import pytest

from rhapsode.published.differences import compare
from rhapsode.published.trace import SpeechTrace

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 64, (12, 4))
WAVE = RNG.standard_normal(24_000).astype(np.float32) * 0.2
TRACE = SpeechTrace(WAVE, 24_000, CODES)


def changed(wave=WAVE, frames=CODES):
    return replace(TRACE, wave=np.asarray(wave, np.float32), frames=frames)


def test_rounding_in_float32_is_no_difference():
    found = compare(changed(WAVE * (1 + 1e-6)), TRACE)
    assert found.findings == ()
    assert (found.frames, found.equal_frames) == (12, 12)
    assert found.snr_db > 100
    assert found.mel_db == pytest.approx(0, abs=1e-3)


def test_a_scale_is_told_with_its_size():
    assert compare(changed(WAVE * 0.5), TRACE).findings == (
        "codec: the samples are 0.5 times upstream's: a wrong scale",
    )


def test_bfloat16_is_told():
    noisy = WAVE + RNG.standard_normal(24_000) * 0.2 * 2**-8
    (finding,) = compare(changed(noisy), TRACE).findings
    assert "bfloat16" in finding


def test_the_first_frame_that_differs_is_told():
    codes = CODES.copy()
    codes[7, 2] += 1
    found = compare(changed(frames=codes), TRACE)
    assert found.equal_frames == 7
    assert found.findings == ("talker: frames are equal up to 7 of 12, then another choice",)
    codes[0] += 1
    (finding,) = compare(changed(frames=codes), TRACE).findings
    assert "first frame" in finding


def test_latents_may_differ_by_rounding():
    latents = RNG.standard_normal((6, 4, 8)).astype(np.float32)
    near = compare(changed(frames=latents + 1e-4), changed(frames=latents))
    assert near.equal_frames == 6
    far = latents.copy()
    far[3] += 0.1
    assert compare(changed(frames=far), changed(frames=latents)).equal_frames == 3


def test_other_lengths_other_rates_and_silence_are_told():
    assert any("length: 12 frames here, 9" in one for one in compare(TRACE, changed(WAVE[:18_000], CODES[:9])).findings)
    assert any("sample rate" in one for one in compare(TRACE, replace(TRACE, sample_rate=16_000)).findings)
    assert any("silent" in one for one in compare(TRACE, changed(WAVE * 0)).findings)


def test_models_without_frames_are_compared_where_they_are_alike():
    quiet = np.zeros(4_000, np.float32)
    ours = SpeechTrace(WAVE, 24_000, None)
    theirs = SpeechTrace(np.concatenate([quiet, WAVE, quiet]), 24_000, None)
    for one, other in ((ours, theirs), (theirs, ours)):
        found = compare(one, other)
        assert found.findings == ()
        assert found.frames is None
        assert found.gain == pytest.approx(1)
