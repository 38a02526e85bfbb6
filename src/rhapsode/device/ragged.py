"""Sequences of different lengths, run together in rectangles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def rectangles(lengths: Sequence[int], most: int) -> Iterator[tuple[list[int], int, int]]:
    """Cuts sequences into steps that several share: yields which of them, and positions `[start, stop)` of each.

    Every sequence is covered once, in order, without padding; no step is longer than `most`. So networks that carry
    state can run a ragged batch exactly.
    """
    start = 0
    while active := [i for i, length in enumerate(lengths) if length > start]:
        stop = min(start + most, *(lengths[i] for i in active))
        yield active, start, stop
        start = stop
