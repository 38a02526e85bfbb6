"""A tail-biting convolutional code for the payload, decoded from soft values with Viterbi's algorithm."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEMORY = 8
STATES = 2**MEMORY
GENERATORS = (0o557, 0o663, 0o711)
REPEATS = 4
CHIPS_PER_BIT = REPEATS * len(GENERATORS)


def encode(bits: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Returns the chips of bits `[..., bits]`, each 1 or -1: `[..., chips]`."""
    history = np.stack([np.roll(bits, delay, axis=-1) for delay in range(MEMORY + 1)])
    taps = np.array([[g >> (MEMORY - delay) & 1 for delay in range(MEMORY + 1)] for g in GENERATORS])
    chips = 1.0 - 2.0 * (np.einsum("gd,d...b->...bg", taps, history.astype(np.int64)) % 2)
    return np.tile(chips, REPEATS).reshape(*bits.shape[:-1], -1)


def agreement(soft: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns how much the repeats of noisy chips `[rows, chips]` agree: much, where there is a code word."""
    repeats = soft.reshape(soft.shape[0], -1, REPEATS, len(GENERATORS)).sum(axis=2)
    shares: NDArray[np.float64] = (repeats**2).sum(axis=(1, 2)) / ((soft**2).sum(axis=1) + 1e-12)
    return shares


def decode(soft: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Returns the most likely bits `[rows, bits]` of noisy chips `[rows, chips]`. Every row is decoded on its own.

    A state is the last `MEMORY` bits, the newest first. All generators have their first and last bit set, so that the
    chips of the four ways between two pairs of states are the same up to their sign. The bits are a circle, and the
    state where decoding starts is unknown. So decoding goes round three times, and the bits of the second round count.
    """
    rows, length = soft.shape[0], soft.shape[1] // CHIPS_PER_BIT
    chips = soft.reshape(rows, length, REPEATS, len(GENERATORS)).sum(axis=2).astype(np.float32)
    gains = np.ascontiguousarray(np.einsum("rbg,gs->bsr", chips, _branches(), optimize=True))
    scores = np.zeros((STATES, rows), np.float32)
    choices = np.empty((3 * length, STATES, rows), np.bool_)
    for step, choice in enumerate(choices):
        gain, even, odd = gains[step % length], scores[0::2], scores[1::2]
        ways = (even + gain, odd - gain), (even - gain, odd + gain)
        scores = np.concatenate([np.maximum(first, second) for first, second in ways])
        np.concatenate([second > first for first, second in ways], out=choice)
    return _traced_back(scores.argmax(axis=0), choices)[:, length : 2 * length]


def _traced_back(states: NDArray[np.int64], choices: NDArray[np.bool_]) -> NDArray[np.uint8]:
    steps, _, rows = choices.shape
    bits = np.empty((rows, steps), np.uint8)
    for step in reversed(range(steps)):
        bits[:, step] = states >> (MEMORY - 1)
        states = (states << 1) % STATES | choices[step, states, np.arange(rows)]
    return bits


@lru_cache(1)
def _branches() -> NDArray[np.float32]:
    """Returns the chips of a 0 that follows every pair of states `[generator, pair]`, where the oldest bit is 0."""
    register = np.arange(STATES // 2) << 1
    ones = [(register & generator)[:, None] >> np.arange(MEMORY + 1) & 1 for generator in GENERATORS]
    return np.stack([1.0 - 2.0 * (bits.sum(axis=1) % 2) for bits in ones]).astype(np.float32)
