"""The sizes that launches are captured in. A launch of another size is padded to the next one."""

from __future__ import annotations

MOST_PROMPTS = 64
"""Prompts in one prefill launch."""
LEAST_POSITIONS = 16
"""Positions in the smallest prefill launch."""


def batch_sizes(most: int) -> list[int]:
    """Rows of a launch: 1, 2, 4, 8, then steps that waste at most a quarter of it."""
    sizes, size = [], 1
    while size < most:
        sizes.append(size)
        size = size * 2 if size < 8 else size + max(8, size // 4 // 8 * 8)
    return [*sizes, most]


def prompt_shapes(most_positions: int) -> list[tuple[int, int]]:
    """Rows and positions of prefill launches, where a turn runs `most_positions`; the smallest first."""
    most = _power_of_two(max(most_positions, LEAST_POSITIONS))
    rows = [1 << i for i in range(MOST_PROMPTS.bit_length())]
    lengths = [LEAST_POSITIONS << i for i in range((most // LEAST_POSITIONS).bit_length())]
    shapes = [(b, t) for b in rows for t in lengths if b * t <= 2 * most]
    return sorted(shapes, key=lambda shape: shape[0] * shape[1])


def prompts_fit(rows: int, positions: int, most_positions: int) -> bool:
    """Whether prompts that are run together, the longest with so many positions, fit one of these shapes."""
    most = _power_of_two(max(most_positions, LEAST_POSITIONS))
    padded = _power_of_two(rows) * _power_of_two(max(positions, LEAST_POSITIONS))
    return rows <= MOST_PROMPTS and positions <= most and padded <= 2 * most


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
