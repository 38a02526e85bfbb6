"""The kernel's cosines and sines are PyTorch's."""

import pytest
import torch

from rhapsode.nn import kernels
from rhapsode.nn.kernels.rotary import rotary_angles, rotary_angles_reference
from rhapsode.nn.rope import RopeConfig, inv_freq


@pytest.mark.parametrize("shape", [(1, 1), (3, 7)], ids=str)
@pytest.mark.parametrize(("dim", "scale", "rounded"), [(128, 1.0, False), (6, 1.5, False), (64, 1.0, True)])
def test_angles_are_those_of_the_reference(device, dtype, shape, dim, scale, rounded) -> None:
    positions = torch.randint(0, 32768, shape, device=device)
    frequencies = inv_freq(RopeConfig(dim, 1e6)).to(device)
    given = (positions, frequencies, scale, rounded, dtype)
    with kernels.use("always"):
        found = rotary_angles(*given)
    wide = dtype == torch.float32 and not rounded
    for angles, expected in zip(found, rotary_angles_reference(*given), strict=True):
        assert angles.shape == (*shape, 1, dim)
        torch.testing.assert_close(angles, expected, rtol=0, atol=2e-7 if wide else 8e-3)
