"""Min-p, and the orders of filters and penalty, in the sampling kernel."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from rhapsode.nn import kernels
from rhapsode.nn.kernels.sampling import Rules, Settings
from rhapsode.nn.sampling import Gumbel, draw
from unit.nn.filters import CASES, Filtered, check

COUNT = 16
"""The interpreter takes long for each row."""


def on(device: torch.device, record: Any) -> Any:
    """Returns a record whose tensors are on the device."""
    moved = {name: value.to(device) for name, value in vars(record).items() if isinstance(value, Tensor)}
    return replace(record, **moved)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_draws_have_the_probabilities_of_the_rule(device, case: Filtered) -> None:
    def in_kernel(scores: Tensor, settings: Settings, rules: Rules, seeds: Tensor) -> Tensor:
        settings, rules = (on(device, record) for record in (settings, rules))
        with kernels.use("always"):
            noise = Gumbel([scores.shape[1]], device)(seeds.to(device), torch.zeros_like(seeds, device=device))[0]
            return draw(scores.to(device), settings, noise, rules=rules).cpu()

    check(case, in_kernel, COUNT)
