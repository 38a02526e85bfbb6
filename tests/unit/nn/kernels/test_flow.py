"""What a diffusion head needs besides its network: the kernels do what the plain way does."""

import pytest
import torch

from rhapsode.nn import kernels
from rhapsode.nn.kernels.flow import euler, euler_reference
from rhapsode.nn.kernels.snake import snake_beta, snake_beta_reference
from rhapsode.nn.philox import normal, uniform


@pytest.mark.parametrize("n", [32, 256, 40, 15, 1])
def test_the_same_noise(device, n: int) -> None:
    seeds = torch.tensor([0, 5, 2**62 + 12345, 2**33], device=device)
    steps = torch.tensor([0, 1, 99, 2**31], device=device)
    with kernels.use("off"):
        expected = normal(seeds, steps, 3, n)
    with kernels.use("always"):
        found = normal(seeds, steps, 3, n)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 40, 1030])
def test_the_same_uniform_numbers(device, n: int) -> None:
    seeds, steps = torch.tensor([0, 2**62 + 12345, 2**33], device=device), torch.tensor([0, 99, 2**31], device=device)
    made = []
    for mode in ("off", "always"):
        with kernels.use(mode):
            made.append(uniform(seeds, steps, 3, n))
    assert torch.equal(*made)


@pytest.mark.parametrize("guidance", ["plain", "zero-star"])
def test_a_guided_step(device, dtype, guidance) -> None:
    x = torch.randn(3, 4, 6, device=device)
    velocity = torch.randn(6, 4, 6).to(device, dtype)
    changes = torch.tensor([[0.1, -0.5], [0.2, 0.0], [0.3, 0.25]], device=device)[:, 1]  # a column
    scale = torch.tensor([1.0, 9.0, 2.0, 9.0, 3.5], device=device)[::2]
    with kernels.use("always"):
        found = euler(x, velocity, changes, scale, guidance)
    expected = euler_reference(x, velocity, changes, scale, guidance)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(found[1], x[1])  # time does not change


@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 4, 1500)])
def test_snake_by_itself(device, dtype, shape: tuple[int, int, int]) -> None:
    x = (torch.randn(shape) * 3).to(device, dtype)
    frequency, size = ((torch.rand(shape[1], 1) + 0.5).to(device, dtype) for _ in range(2))
    with kernels.use("always"):
        found = snake_beta(x, frequency, size)
    close = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found, snake_beta_reference(x, frequency, size), rtol=close, atol=close)
