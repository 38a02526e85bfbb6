"""The sizes that launches are captured in. A launch of another size is padded to the next one."""

from __future__ import annotations

from functools import lru_cache

MOST_PROMPTS = 64
"""The most prompts in one prefill launch."""
LEAST_POSITIONS = 16
"""Positions in the smallest prefill launch."""
LEAST_CROWD = 8
"""The largest launches with at least this many prompts also exist with three quarters of their length."""
MOST_KEPT = 4096
"""Cached results of each function: under load, the same few are needed several times for each prompt."""


def batch_sizes(most: int) -> list[int]:
    """Returns the numbers of rows that launches are captured with, up to `most`: 1, 2, 4, 8, 16, 24, 32, and then four
    steps from each power of two to the next (64, 80, 96, 112, 128).

    Matrix products have tiles of 16, 32 or 64 rows, and most of these sizes fill them.
    """
    sizes, size = [], 1
    while size < most:
        sizes.append(size)
        size = size * 2 if size < 8 else size + max(8, _power_of_two(size + 1) // 8)
    return [*sizes, most]


def prompt_shapes(most_positions: int) -> list[tuple[int, int]]:
    """Returns the rows and positions of all prefill launches, smallest first. A turn runs `most_positions`."""
    most = _power_of_two(max(most_positions, LEAST_POSITIONS))
    rows = [1 << i for i in range(MOST_PROMPTS.bit_length())]
    lengths = [LEAST_POSITIONS << i for i in range((most // LEAST_POSITIONS).bit_length())]
    shapes = {(b, t) for b in rows for t in lengths if b * t <= 2 * most}
    shapes |= {(b, length_step(t * 3 // 4)) for b, t in shapes if b * t == 2 * most and b >= LEAST_CROWD}
    return sorted(shapes, key=lambda shape: shape[0] * shape[1])


@lru_cache(MOST_KEPT)
def prompts_fit(rows: int, positions: int, most_positions: int) -> bool:
    """Returns whether a batch of `rows` prompts, the longest with `positions`, fits one of the captured shapes."""
    most = _power_of_two(max(most_positions, LEAST_POSITIONS))
    return rows <= MOST_PROMPTS and positions <= most and _power_of_two(rows) * _length(positions) <= 2 * most


@lru_cache(MOST_KEPT)
def padded_positions(rows: int, positions: int, most_positions: int) -> int:
    """Returns the size of the captured shape that such a batch runs in: rows times positions, padding included."""
    most, batch, length = _power_of_two(max(most_positions, LEAST_POSITIONS)), _power_of_two(rows), _length(positions)
    is_crowd = batch * length == 2 * most and batch >= LEAST_CROWD
    return batch * (length_step(positions) if is_crowd else length)


@lru_cache(MOST_KEPT)
def length_step(positions: int) -> int:
    """Returns the length that a prompt is padded to in the largest shapes."""
    length = _length(positions)
    return length * 3 // 4 if length > 2 * LEAST_POSITIONS and positions <= length * 3 // 4 else length


def _length(positions: int) -> int:
    return _power_of_two(max(positions, LEAST_POSITIONS))


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
