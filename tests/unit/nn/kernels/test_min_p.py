"""Min-p in the sampling kernel."""

import pytest
import torch
from torch import Tensor

from rhapsode.nn import kernels
from rhapsode.nn.kernels.sampling import Settings
from rhapsode.nn.sampling import Gumbel, draw
from unit.nn.filters import CASES, Filtered, check

COUNT = 24
"""The interpreter takes long for each row."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_draws_have_the_probabilities_of_the_rule(device, case: Filtered) -> None:
    def in_kernel(scores: Tensor, settings: Settings, seeds: Tensor) -> Tensor:
        columns = {name: values.to(device) for name, values in settings.columns().items()}
        with kernels.use("always"):
            noise = Gumbel([scores.shape[1]], device)(seeds.to(device), torch.zeros_like(seeds, device=device))[0]
            return draw(scores.to(device), Settings(**columns), noise).cpu()

    check(case, in_kernel, COUNT)
