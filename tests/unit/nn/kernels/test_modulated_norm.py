"""The fused norm of a diffusion transformer does what the plain one does."""

import pytest
import torch

from rhapsode.nn import kernels
from rhapsode.nn.kernels.modulated_norm import GatedUpdate, Modulation, modulated_norm, modulated_norm_reference


@pytest.mark.parametrize("dim", [48, 64])
@pytest.mark.parametrize("updates", [False, True], ids=["as it is", "after an update"])
def test_a_residual_and_its_norm(device, dtype, dim, updates) -> None:
    x = torch.randn(2, 3, dim, device=device) * 5
    modulation = Modulation(*torch.randn(2, dim, device=device))
    added = GatedUpdate(torch.randn(2, 3, dim).to(device, dtype), torch.randn(dim, device=device)) if updates else None
    expected = modulated_norm_reference(x.clone(), modulation, 1e-6, dtype, added)
    with kernels.use("always"):
        found = modulated_norm(x.clone(), modulation, 1e-6, dtype, added)
    close = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[1], expected[1], rtol=close, atol=close)
    assert found[1].dtype == dtype
