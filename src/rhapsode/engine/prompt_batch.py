"""Chooses prompts that run together: of about the same length, since a launch is a padded rectangle."""

from __future__ import annotations

from collections.abc import Iterable

from rhapsode.device.buckets import length_step, padded_positions, prompts_fit

FREE_POSITIONS = 512
"""Below this many positions, padding included, every launch takes about as long: the time goes into reading weights."""


def prompt_batch(lengths: Iterable[int], most_positions: int, budget: int) -> list[int]:
    """Returns the indices of the prompts in the next launch. `lengths`: positions left of each prompt, oldest first.

    The first one always does. Others join it if the launch takes no longer because of them, or if they are about as
    long. A piece of a prompt has at most `most_positions`, and all pieces together have at most `budget`.
    """
    chosen: list[int] = []
    longest = area = 0
    for i, left in enumerate(lengths):
        piece = min(left, most_positions, budget)
        if chosen:
            if budget <= 0 or not prompts_fit(len(chosen) + 1, longest, most_positions):
                break
            with_it = padded_positions(len(chosen) + 1, max(longest, piece), most_positions)
            is_alike = length_step(piece) == length_step(longest)
            if with_it > max(area, FREE_POSITIONS) and not is_alike:
                continue
            if not prompts_fit(len(chosen) + 1, max(longest, piece), most_positions):
                continue
        chosen.append(i)
        longest = max(longest, piece)
        area = padded_positions(len(chosen), longest, most_positions)
        budget -= max(1, piece)
    return chosen
