"""Flow matching: times, Euler steps, and an integral that ends where the velocities lead."""

import pytest
import torch

from rhapsode.nn.flow import (
    Schedules,
    cosine_times,
    euler_steps,
    even_times,
    initial_noise,
    sinusoids,
    solve,
    sway_times,
    zero_star_skip,
)
from rhapsode.nn.kernels.flow import Guidance, euler_reference, guide
from rhapsode.nn.philox import normal
from tiny.talking import rows_of

WIDE = torch.float64


@pytest.mark.parametrize(("times", "first", "last"), [(sway_times, 1, 0), (cosine_times, 0, 1)])
def test_times_run_from_noise_to_data_with_small_steps_first(times, first: float, last: float) -> None:
    found = times(10, WIDE)
    assert (float(found[0]), float(found[-1])) == (first, pytest.approx(last, abs=1e-12))
    gaps = found.diff() * (last - first)
    assert bool((gaps > 0).all())
    assert bool((gaps.diff() > 0).all())


def test_even_times_are_fractions_of_the_number_of_steps() -> None:
    steps = euler_steps(even_times(7, torch.float32))
    assert [step.time for step in steps] == pytest.approx([i / 7 for i in range(7)], abs=1e-6)
    assert [step.change for step in steps] == pytest.approx([1 / 7] * 7, abs=1e-6)


@pytest.mark.parametrize(("timesteps", "skipped"), [(1, 1), (10, 1), (48, 1), (49, 2), (100, 4)])
def test_cfg_zero_star_skips_the_first_steps(timesteps: int, skipped: int) -> None:
    times = sway_times(timesteps, torch.float32)
    found = euler_steps(times, zero_star_skip(timesteps))
    assert len(found) == timesteps - skipped
    assert [step.time for step in found] == pytest.approx(times[skipped:-1].tolist(), abs=1e-6)
    assert sum(step.change for step in found) == pytest.approx(-float(times[skipped]), abs=1e-6)


def test_times_are_rounded_as_the_network_was_trained() -> None:
    """What upstream gives VoxCPM2's network in bfloat16."""
    upstream = [0.953125, 0.91015625, 0.8515625, 0.7890625, 0.70703125, 0.609375, 0.4921875, 0.349609375, 0.1884765625]
    assert [step.time for step in euler_steps(sway_times(10, torch.bfloat16), 1)] == upstream


def test_schedules_are_padded_with_steps_that_change_nothing() -> None:
    every = [euler_steps(even_times(n, WIDE)) for n in (2, 5)]
    schedules = Schedules(every)
    assert (schedules.step_counts, schedules.max_steps) == ([2, 5], 5)
    assert schedules.changes[0].tolist() == [0.5, 0.5, 0.0, 0.0, 0.0]
    assert schedules.times[1].tolist() == pytest.approx([step.time for step in every[1]])


@pytest.mark.parametrize("times", [sway_times, even_times, cosine_times])
@pytest.mark.parametrize("guidance", ["plain", "zero-star"])
def test_a_straight_flow_arrives_in_either_direction_of_time(times, guidance: Guidance) -> None:
    target, noise = torch.tensor([[3.0, -1.0]]), torch.randn(1, 2)
    changes = Schedules([euler_steps(times(20, WIDE))]).changes.float()
    velocity = (target - noise) / changes.sum()
    found = solve(noise, changes, torch.ones(1), lambda x, step: velocity.repeat(2, 1), guidance)
    assert torch.allclose(found, target, atol=1e-5)


@pytest.mark.parametrize("guidance", ["plain", "zero-star"])
def test_rows_have_a_guidance_scale_of_their_own(guidance: Guidance) -> None:
    conditional, unconditional = torch.randn(3, 4, 2), torch.randn(3, 4, 2)
    scale = torch.tensor([1.0, 2.0, 5.0])
    found = guide(conditional, unconditional, scale, guidance)
    assert torch.allclose(found[0], conditional[0], atol=1e-5)  # a scale of 1 is no guidance
    for row in range(3):
        own = slice(row, row + 1)
        assert torch.allclose(guide(conditional[own], unconditional[own], scale[own], guidance)[0], found[row])
    fit = (conditional[1] * unconditional[1]).sum() / unconditional[1].square().sum()
    base = unconditional[1] * (fit if guidance == "zero-star" else 1.0)
    assert torch.allclose(found[1], base + 2 * (conditional[1] - base), atol=1e-5)


def test_a_step_goes_where_time_goes() -> None:
    x, velocity = torch.zeros(2, 3), torch.ones(4, 3)
    found = euler_reference(x, velocity, torch.tensor([0.25, -0.5]), torch.ones(2), "plain")
    assert found[:, 0].tolist() == [0.25, -0.5]


def test_noise_is_of_the_seed_and_the_step_and_temperature_scales_it() -> None:
    rows = rows_of(seeds=[5, 9], steps=[0, 3], temperatures=[1.0, 0.5])
    found = initial_noise(rows, (2, 3), WIDE)
    expected = normal(rows.seeds, rows.steps, 0, 6)
    assert torch.equal(found[0], expected[0].view(2, 3).double())
    assert torch.equal(found[1], (expected[1] * 0.5).view(2, 3).double())


def test_waves_fall_from_one_to_the_lowest_frequency() -> None:
    sines, cosines = sinusoids(torch.tensor([0.0, 1.0], dtype=WIDE), 8, last_rank=4)
    assert (sines[0].tolist(), cosines[0].tolist()) == ([0.0] * 4, [1.0] * 4)
    assert sines[1].tolist() == pytest.approx(torch.sin(torch.tensor([1, 0.1, 0.01, 0.001], dtype=WIDE)).tolist())
