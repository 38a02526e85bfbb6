"""Chooses the prompts of a burst's next launch: the most urgent one, and others of about the same length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from rhapsode.device.buckets import length_step


class Candidate(NamedTuple):
    """A prompt that could be launched now."""

    size: int
    """How long it is, in what its launch counts: positions before it is measured, and then frames."""
    is_measured: bool
    left_s: float
    """How soon its listener needs it: the seconds of audio that are left or on their way."""

    @property
    def bucket(self) -> tuple[bool, int]:
        """What all prompts of a launch have in common: the kind of the launch, and the length they are padded to."""
        return self.is_measured, length_step(self.size)


def rows_of(length: int, most_rows: int, launch_size: int) -> int:
    """Returns how many prompts of this length a launch may have."""
    return max(1, min(most_rows, launch_size // length))


def burst_batch(candidates: Sequence[Candidate], most_rows: int, launch_size: int, comfort_s: float) -> list[int]:
    """Returns the indices of the prompts in the next launch, the most urgent first.

    `comfort_s`: a listener with more audio than this can wait. Such listeners do not join a launch that others need
    soon, since it would take longer because of them.
    """
    if not candidates:
        return []
    order = sorted(range(len(candidates)), key=lambda i: candidates[i].left_s)  # stable: of equals, the oldest first
    first = candidates[order[0]]
    is_needed = first.left_s < comfort_s
    joins = (
        i
        for i in order
        if candidates[i].bucket == first.bucket and not (is_needed and candidates[i].left_s >= comfort_s)
    )
    return list(islice(joins, rows_of(first.bucket[1], most_rows, launch_size)))
