"""Which launches of a codec on a CPU say what its listeners cost."""

import numpy as np
import pytest

from rhapsode.device.reach import Reach
from rhapsode.engine.block_grid import BlockGrid
from rhapsode.engine.planner import Choice
from unit.device.test_stream import SLOTS, produce, stream

FRAME_S = 0.08
BOTH = np.array([0, 1])


@pytest.fixture
def edge():
    made = stream(capacity=16)
    for slot in BOTH:
        produce(made, slot, range(8))
    return made


def is_usual(edge, blocks, granularity=1, frame_s=FRAME_S):
    grid = BlockGrid(SLOTS, edge, Reach(granularity=granularity))
    return grid.is_usual(grid.launch(Choice(BOTH, blocks)), frame_s)


def test_short_chunks_beside_a_talker_are_usual(edge):
    assert is_usual(edge, 1)
    assert is_usual(edge, 2)


def test_long_chunks_cost_less_than_those_of_many_listeners(edge):
    assert not is_usual(edge, 4)
    assert is_usual(edge, 4, frame_s=0.02)  # as long as one frame of 80 ms


def test_a_stage_of_large_blocks_has_no_shorter_ones(edge):
    assert is_usual(edge, 1, granularity=8)


def test_a_codec_is_faster_once_no_talker_works_beside_it(edge):
    edge.end(0)
    assert is_usual(edge, 1)
    edge.end(1)
    assert not is_usual(edge, 1)


def test_frames_are_unheard_only_at_the_end(edge):
    grid = BlockGrid(SLOTS, edge, Reach(lookahead=2, incremental=True, unheard=2))
    assert grid.launch(Choice(BOTH, 6)).heard().tolist() == [6, 6]
    edge.end(0)
    assert grid.launch(Choice(BOTH, 8)).heard().tolist() == [6, 6]
    assert grid.launch(Choice(BOTH, 7)).heard().tolist() == [6, 6]


def test_no_more_frames_can_be_unheard_than_are_looked_ahead_at():
    with pytest.raises(ValueError, match="3 frames cannot be unheard with a look-ahead of 2"):
        Reach(lookahead=2, unheard=3)
