"""Channels are mixed or repeated; what is right already is left alone."""

import numpy as np
import pytest

from rhapsode.audio.channels import Remix
from rhapsode.errors import InvalidRequest

STEREO = np.array([[0.5, -1.0, 0.25], [0.1, 1.0, 0.75]], np.float32)


def test_mono_is_the_mean_of_both_channels() -> None:
    mixed = Remix(2, 1).write(STEREO)
    assert mixed.dtype == np.float32
    np.testing.assert_allclose(mixed, [[0.3, 0.0, 0.5]], atol=1e-7)


def test_stereo_from_mono_is_the_same_on_both() -> None:
    np.testing.assert_array_equal(Remix(1, 2).write(STEREO[:1]), STEREO[[0, 0]])


@pytest.mark.parametrize("channels", [1, 2])
def test_the_right_number_is_left_alone(channels: int) -> None:
    samples = STEREO[:channels]
    assert Remix(channels, channels).write(samples) is samples
    assert Remix(channels, channels).close().shape == (channels, 0)


def test_other_numbers_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="mono or stereo"):
        Remix(2, 3)
    with pytest.raises(ValueError, match=r"expected samples of shape \[2, n\]"):
        Remix(2, 1).write(STEREO[:1])
