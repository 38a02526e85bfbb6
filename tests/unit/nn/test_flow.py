"""Flow matching: times, Euler steps, and an integral that ends where the velocities lead."""

import pytest
import torch

from rhapsode.nn.flow import Schedules, euler_steps, solve, sway
from rhapsode.nn.kernels.flow import guide


def test_times_run_from_noise_to_data_with_small_steps_first() -> None:
    times = sway(10, torch.float64)
    assert (float(times[0]), float(times[-1])) == (1.0, pytest.approx(0.0, abs=1e-12))
    gaps = times[:-1] - times[1:]
    assert bool((gaps > 0).all())
    assert bool((gaps.diff() > 0).all())


@pytest.mark.parametrize(("timesteps", "skipped"), [(1, 1), (10, 1), (48, 1), (49, 2), (100, 4)])
def test_the_first_steps_are_skipped(timesteps: int, skipped: int) -> None:
    found = euler_steps(timesteps, torch.float32)
    assert len(found) == timesteps - skipped
    times = sway(timesteps, torch.float32)
    assert [step.time for step in found] == pytest.approx(times[skipped:-1].tolist(), abs=1e-6)
    assert sum(step.length for step in found) == pytest.approx(float(times[skipped]), abs=1e-6)


def test_times_are_rounded_as_the_network_was_taught() -> None:
    """What upstream gives its network in bfloat16."""
    upstream = [0.953125, 0.91015625, 0.8515625, 0.7890625, 0.70703125, 0.609375, 0.4921875, 0.349609375, 0.1884765625]
    assert [step.time for step in euler_steps(10, torch.bfloat16)] == upstream


def test_schedules_are_padded_with_steps_of_no_length() -> None:
    schedules = Schedules(10, torch.float32)
    assert schedules.step_counts == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert schedules.lengths.shape == (10, 9)
    expected = [step.length for step in euler_steps(4, torch.float32)]
    assert schedules.lengths[3].tolist() == pytest.approx(expected + [0.0] * 6)


def test_a_straight_flow_arrives() -> None:
    target, noise = torch.tensor([[3.0, -1.0]]), torch.randn(1, 2)
    lengths = Schedules(20, torch.float64).lengths[19:20].float()
    velocity = (noise - target) / lengths.sum()
    found = solve(noise, lengths, torch.ones(1), lambda x, step: velocity.repeat(2, 1))
    assert torch.allclose(found, target, atol=1e-5)


def test_rows_have_a_guidance_scale_of_their_own() -> None:
    conditional, unconditional = torch.randn(3, 4, 2), torch.randn(3, 4, 2)
    guidance = torch.tensor([1.0, 2.0, 5.0])
    found = guide(conditional, unconditional, guidance)
    assert torch.allclose(found[0], conditional[0], atol=1e-5)  # a scale of 1 is no guidance
    for row in range(3):
        own = slice(row, row + 1)
        assert torch.allclose(guide(conditional[own], unconditional[own], guidance[own])[0], found[row])
    base = unconditional[1] * (conditional[1] * unconditional[1]).sum() / unconditional[1].square().sum()
    assert torch.allclose(found[1], base + 2 * (conditional[1] - base), atol=1e-5)
