"""Sizes of captured launches: whatever the engine launches fits one of them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.device.buckets import MOST_PROMPTS, batch_sizes, padded_positions, prompt_shapes, prompts_fit


@pytest.mark.parametrize("most", [1, 2, 7, 32, 64, 500])
def test_no_batch_wastes_more_than_a_quarter_past_eight_rows(most):
    sizes = batch_sizes(most)
    assert sizes[-1] == most
    for smaller, larger in pairwise(sizes):
        assert smaller < larger <= (2 * smaller if smaller < 8 else smaller + max(8, smaller / 4))


def test_crowds_fill_the_tiles_of_matrix_products():
    sizes = batch_sizes(1024)
    assert all(size % 32 == 0 for size in sizes if size > 112)
    assert all(size % 64 == 0 for size in sizes if size > 224)
    assert {128, 256, 512} < set(sizes)


@given(st.integers(1, 100), st.integers(1, 3000), st.sampled_from([16, 100, 512, 1024, 2048]))
def test_prompts_fit_exactly_where_there_is_a_shape_that_holds_them(rows, positions, most_positions):
    holding = [(b, t) for b, t in prompt_shapes(most_positions) if b >= rows and t >= positions]
    assert prompts_fit(rows, positions, most_positions) == bool(holding)


@given(st.integers(1, 64), st.integers(1, 2048), st.sampled_from([16, 100, 512, 1024, 2048]))
def test_prompts_are_padded_to_the_smallest_shape_that_holds_them(rows, positions, most_positions):
    holding = [b * t for b, t in prompt_shapes(most_positions) if b >= rows and t >= positions]
    assert not holding or padded_positions(rows, positions, most_positions) == holding[0]


@pytest.mark.parametrize("most_positions", [1, 16, 100, 512, 1024, 2048])
def test_one_prompt_of_all_positions_of_a_turn_always_fits(most_positions):
    assert prompts_fit(1, most_positions, most_positions)


def test_a_crowd_of_short_prompts_is_one_launch():
    assert prompts_fit(MOST_PROMPTS, 32, 1024)
    assert not prompts_fit(MOST_PROMPTS + 1, 1, 1024)
