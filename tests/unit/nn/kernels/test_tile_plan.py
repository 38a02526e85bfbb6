"""Tiles of 8-bit products: the plans that were the fastest in sweeps on an H200."""

import pytest

SHAPES = {  # outputs, inputs, is it gated, may its sums be cut into shares: the talker of Qwen3-TTS-1.7B
    "qkv": (4096, 2048, False, False),
    "gate and up": (6144, 2048, True, False),
    "o": (2048, 2048, False, True),
    "down": (2048, 6144, False, True),
}
PLANS = {  # rows of the weights and of the input, stages, shares
    ("qkv", 64): (64, 32, 4, 1),
    ("qkv", 256): (64, 64, 4, 1),
    ("qkv", 328): (64, 64, 3, 1),  # all 384 programs at once, if three share a multiprocessor
    ("qkv", 512): (128, 64, 3, 1),
    ("gate and up", 120): (64, 64, 3, 1),
    ("gate and up", 256): (64, 64, 3, 1),
    ("gate and up", 264): (128, 64, 3, 1),  # two waves instead of three
    ("gate and up", 328): (64, 64, 3, 1),  # three waves of either: small ones are shorter
    ("gate and up", 2048): (128, 64, 3, 1),
    ("o", 32): (64, 32, 4, 4),
    ("o", 256): (64, 64, 4, 1),
    ("o", 512): (128, 64, 4, 1),
    ("down", 120): (64, 64, 4, 4),
    ("down", 256): (64, 64, 4, 2),
    ("down", 512): (128, 64, 4, 1),
}


@pytest.mark.parametrize(("name", "rows"), PLANS)
def test_a_plan_is_the_one_that_was_measured_to_be_fast(name: str, rows: int) -> None:
    from rhapsode.nn.kernels.gpu.tile_plan import tile_plan

    plan = tile_plan(rows, *SHAPES[name])
    assert (plan.lines, plan.rows, plan.stages, plan.shares) == PLANS[name, rows]
