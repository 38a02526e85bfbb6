from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.audio.samples import from_pcm16, layout_of, pcm16, shaped
from rhapsode.errors import GenerationFailed, InvalidRequest


def test_every_16_bit_value_survives_the_way_to_float_and_back() -> None:
    values = np.arange(-32768, 32768, dtype=np.int16)
    assert np.array_equal(pcm16(from_pcm16(values[None])), values[None])


@given(st.floats(-4.0, 4.0, width=32))
def test_pcm16_clips_and_is_never_more_than_half_a_step_off(value: float) -> None:
    out = int(pcm16(np.array([[value]], dtype=np.float32))[0, 0])
    wanted = min(max(value * 32768, -32768), 32767)
    assert abs(out - wanted) <= 0.5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite_are_refused(bad: float) -> None:
    samples = np.zeros((1, 10), dtype=np.float32)
    samples[0, 3] = bad
    with pytest.raises(GenerationFailed, match="not finite"):
        pcm16(samples)


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[2, n\]"):
        shaped(np.zeros((1, 4), dtype=np.float32), 2)
    with pytest.raises(ValueError, match=r"\[1, n\]"):
        shaped(np.zeros(4, dtype=np.float32), 1)


def test_more_than_two_channels_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="mono or stereo"):
        layout_of(3)
