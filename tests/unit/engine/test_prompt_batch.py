"""Which prompts run together: launches are padded, so prompts of about the same length do."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.device.buckets import padded_positions, prompts_fit
from rhapsode.engine.prompt_batch import FREE_POSITIONS, prompt_batch

MOST = 1024


def launches(lengths: list[int]) -> list[list[int]]:
    """The prompts of each launch, until all have run."""
    made = []
    while lengths:
        chosen = prompt_batch(lengths, MOST, 2 * MOST)
        made.append([lengths[i] for i in chosen])
        lengths = [length for i, length in enumerate(lengths) if i not in chosen]
    return made


def padded(launch: list[int]) -> int:
    return padded_positions(len(launch), max(launch), MOST)


def test_prompts_of_the_same_length_fill_the_largest_shape():
    assert launches([60] * 70) == [[60] * 32, [60] * 32, [60] * 6]


def test_a_few_prompts_run_together_however_long_they_are():
    assert launches([60, 150]) == [[60, 150]]
    assert padded([60, 150]) <= FREE_POSITIONS


def test_long_prompts_do_not_make_those_of_a_crowd_long():
    crowd = [60] * 7 + [200] + [60] * 24
    assert launches(crowd) == [[60] * 31, [200]]


def test_the_oldest_prompt_is_always_among_them():
    assert prompt_batch([900, *[60] * 100], MOST, 2 * MOST)[0] == 0


def test_short_prompts_fill_rows_that_would_be_padding():
    launch = launches([200] * 5 + [30] * 60)[0]
    assert sorted(launch, reverse=True) == [200] * 5 + [30] * 3


def test_a_crowd_of_mixed_lengths_is_padded_to_less_than_five_thirds_of_its_size():
    rng = random.Random(1)
    crowd = [rng.randint(130, 175) if rng.random() < 0.12 else rng.randint(35, 75) for _ in range(512)]
    assert sum(padded(launch) for launch in launches(crowd)) < 5 / 3 * sum(crowd)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=90), st.integers(16, 2 * MOST))
def test_every_launch_fits_a_captured_shape_and_its_budget(lengths, budget):
    chosen, pieces = prompt_batch(lengths, MOST, budget), []
    for i in chosen:
        assert budget > 0
        pieces.append(min(lengths[i], MOST, budget))
        budget -= max(1, pieces[-1])
    assert chosen[0] == 0
    assert prompts_fit(len(pieces), max(pieces), MOST)


@pytest.mark.parametrize("budget", [16, 30, 100])
def test_a_small_budget_is_kept(budget):
    chosen = prompt_batch([50] * 10, MOST, budget)
    assert 50 * (len(chosen) - 1) < budget
