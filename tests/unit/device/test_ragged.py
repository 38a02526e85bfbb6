"""Sequences of different lengths run together: every position once, in order, in sizes that are compiled."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.device.ragged import LaunchSizes, ragged_runs

SIZES = LaunchSizes([1, 2, 4, 8], [1, 2, 4])
SCRATCH = 99


@given(st.lists(st.integers(0, 40), max_size=9), st.integers(1, 16), st.sampled_from([None, SIZES]))
def test_every_position_is_run_once_and_in_order(lengths, most, sizes):
    sequences = [np.arange(1, length + 1)[:, None] + 100 * i for i, length in enumerate(lengths)]
    seen = [[] for _ in lengths]
    for run in ragged_runs(lengths, torch.arange(len(lengths)), SCRATCH, most, sizes):
        rows = run.stack(sequences)
        assert rows.shape[1] == run.stop - run.start <= most
        assert run.slots.tolist() == [*run.which, *[SCRATCH] * (len(run.slots) - len(run.which))]
        assert not rows[len(run.which) :].any()
        for i, row in zip(run.which, rows, strict=False):
            seen[i] += row[:, 0].tolist()
        if sizes is not None:
            assert rows.shape[1] in sizes.frames
            assert rows.shape[0] in sizes.rows
    assert seen == [sequence[:, 0].tolist() for sequence in sequences]


@pytest.mark.parametrize("sizes", [None, SIZES])
def test_tensors_are_stacked_where_they_are(sizes):
    sequences = [torch.ones(3, 2), torch.full((5, 2), 2.0)]
    first = next(iter(ragged_runs([3, 5], torch.tensor([7, 8]), SCRATCH, 3, sizes)))
    stacked = first.stack(sequences)
    assert stacked[0].eq(1).all()
    assert stacked[1].eq(2).all()
