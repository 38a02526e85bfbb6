"""Min-p keeps the ids whose probability is at least so large a part of the highest: in operators and in C."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rhapsode.nn.kernels.cpu import library as built
from rhapsode.nn.kernels.cpu.predictor import draw_code
from rhapsode.nn.kernels.sampling import NoiseCounters, Settings, TopP
from rhapsode.nn.sampling import Gumbel, draw, kept, probabilities
from unit.nn.filters import CASES, MIXED, Filtered, check

COUNT = 20_000


def steps(seeds: Tensor) -> Tensor:
    return torch.zeros_like(seeds)


def by_operators(scores: Tensor, settings: Settings, seeds: Tensor) -> Tensor:
    noise = Gumbel([scores.shape[1]], torch.device("cpu"))(seeds, steps(seeds))[0]
    return draw(scores, settings, noise, settings.partial_k())


def in_c(scores: Tensor, settings: Settings, seeds: Tensor) -> Tensor:
    return draw_code(scores, settings, NoiseCounters(seeds, steps(seeds), 0))


needs_compiler = pytest.mark.skipif(built.library() is None, reason="there is no C compiler")
BACKENDS = [by_operators, pytest.param(in_c, marks=needs_compiler)]


@pytest.mark.parametrize("case", [case for case in CASES.values() if case.temperature > 0])
def test_the_reference_has_the_probabilities_of_the_rule(case: Filtered) -> None:
    found = probabilities(torch.tensor([case.scores]), case.settings(1))[0]
    np.testing.assert_allclose(found, case.probabilities(), atol=1e-6)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_draws_have_the_probabilities_of_the_rule(backend, case: Filtered) -> None:
    check(case, backend, COUNT)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_row_has_a_min_p_of_its_own(backend) -> None:
    least = torch.tensor([0.0, 1.0, 0.5, 0.0, 0.2]).repeat(400)
    scores = torch.tensor(MIXED).expand(len(least), -1).contiguous()
    asked = replace(Filtered(MIXED).settings(len(least)), min_p=least)
    drawn = backend(scores, asked, torch.arange(len(least)))
    odds = (scores - scores.amax(1, keepdim=True)).exp().gather(1, drawn[:, None])[:, 0]
    assert (odds >= least).all()
    assert (odds[least == 0] < 0.2).any()


def test_rows_without_it_need_no_sort() -> None:
    assert Filtered(MIXED, top_k=5).settings(2).partial_k() == 5
    assert Filtered(MIXED, top_k=5, min_p=0.1).settings(2).partial_k() == -1


@pytest.mark.parametrize("rule", [TopP.THROUGH, TopP.BELOW])
def test_filters_by_rank_take_it_too_with_the_temperature(rule: TopP) -> None:
    scores = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()
    ones = torch.ones(1)
    for temperature, count in ((1.0, 2), (0.3, 1), (4.0, 4)):
        asked = Settings(ones * temperature, torch.tensor([0]), ones, rule, ones * 0.4)
        assert kept(scores, asked).tolist() == [[rank < count for rank in range(4)]]
