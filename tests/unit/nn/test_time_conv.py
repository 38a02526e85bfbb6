"""A convolution over time computes the same, whatever its layout in memory is."""

import pytest
import torch

from rhapsode.nn.derived import derive
from rhapsode.nn.kernels.snake import snake_beta_reference, unit_snake
from rhapsode.nn.time_conv import TimeConv1d, channels_last


@pytest.mark.parametrize(("kernel", "dilation", "stride", "groups"), [(3, 1, 1, 1), (7, 5, 1, 1), (4, 1, 2, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.inference_mode()
def test_it_is_the_usual_convolution(kernel: int, dilation: int, stride: int, groups: int, dtype: torch.dtype) -> None:
    made = TimeConv1d(8, 12, kernel, stride, kernel // 2 * dilation, dilation, groups).to(dtype)
    derive(made)
    x = torch.randn(2, 8, 40, dtype=dtype)
    wanted = torch.nn.Conv1d.forward(made, x)
    for given in (x, channels_last(x)):
        assert torch.allclose(made(given), wanted, atol=1e-5)


@torch.inference_mode()
def test_channels_lie_beside_each_other() -> None:
    assert channels_last(torch.randn(2, 8, 40)).stride() == (320, 1, 8)


def test_a_unit_snake_is_a_snake_of_frequency_and_size_one() -> None:
    x, one = torch.randn(2, 3, 50), torch.ones(3, 1)
    assert torch.allclose(unit_snake(x.clone()), snake_beta_reference(x, one, one))
