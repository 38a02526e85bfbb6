"""Flow matching: times, moves, and a way that ends where the velocities lead."""

import pytest
import torch

from rhapsode.nn.flow import Schedules, moves, solve, sway
from rhapsode.nn.kernels.flow import guide


def test_times_run_from_noise_to_data_with_small_steps_first() -> None:
    times = sway(10, torch.float64)
    assert (float(times[0]), float(times[-1])) == (1.0, pytest.approx(0.0, abs=1e-12))
    gaps = times[:-1] - times[1:]
    assert bool((gaps > 0).all())
    assert bool((gaps.diff() > 0).all())


@pytest.mark.parametrize(("steps", "still"), [(1, 1), (10, 1), (48, 1), (49, 2), (100, 4)])
def test_the_first_moves_are_left_out(steps: int, still: int) -> None:
    found = moves(steps, torch.float32)
    assert len(found) == steps - still
    times = sway(steps, torch.float32)
    assert [move.time for move in found] == pytest.approx(times[still:-1].tolist(), abs=1e-6)
    assert sum(move.length for move in found) == pytest.approx(float(times[still]), abs=1e-6)


def test_times_are_rounded_as_the_network_was_taught() -> None:
    """What upstream gives its network in bfloat16."""
    upstream = [0.953125, 0.91015625, 0.8515625, 0.7890625, 0.70703125, 0.609375, 0.4921875, 0.349609375, 0.1884765625]
    assert [move.time for move in moves(10, torch.bfloat16)] == upstream


def test_schedules_are_filled_up_with_moves_of_no_length() -> None:
    schedules = Schedules(10, torch.float32)
    assert schedules.counts == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert schedules.lengths.shape == (10, 9)
    assert schedules.lengths[3].tolist() == pytest.approx([move.length for move in moves(4, torch.float32)] + [0.0] * 6)


def test_a_straight_flow_arrives() -> None:
    target, noise = torch.tensor([[3.0, -1.0]]), torch.randn(1, 2)
    lengths = Schedules(20, torch.float64).lengths[19:20].float()
    told = (noise - target) / lengths.sum()  # so far in all
    found = solve(noise, lengths, torch.ones(1), lambda x, move: told.repeat(2, 1))
    assert torch.allclose(found, target, atol=1e-5)


def test_rows_are_guided_by_their_own_strength() -> None:
    told, untold = torch.randn(3, 4, 2), torch.randn(3, 4, 2)
    strength = torch.tensor([1.0, 2.0, 5.0])
    found = guide(told, untold, strength)
    assert torch.allclose(found[0], told[0], atol=1e-5)  # 1 is: as told
    for row in range(3):
        assert torch.allclose(guide(told[row : row + 1], untold[row : row + 1], strength[row : row + 1])[0], found[row])
    fit = (told[1] * untold[1]).sum() / untold[1].square().sum()
    assert torch.allclose(found[1], fit * untold[1] + 2 * (told[1] - fit * untold[1]), atol=1e-5)
