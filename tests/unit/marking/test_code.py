from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.marking.code import CHIPS_PER_BIT, agreement, decode, encode

BITS = 40
words = st.lists(st.integers(0, 1), min_size=BITS, max_size=BITS).map(lambda bits: np.array(bits, np.uint8))


@settings(max_examples=30, deadline=None)
@given(words)
def test_bits_come_back_from_clean_chips(bits):
    chips = encode(bits)
    assert chips.shape == (BITS * CHIPS_PER_BIT,)
    assert np.array_equal(decode(chips[None])[0], bits)


def test_bits_come_back_from_chips_below_the_noise():
    chance = np.random.default_rng(0)
    bits = chance.integers(0, 2, (50, BITS)).astype(np.uint8)
    noisy = encode(bits) + chance.normal(0, 1.5, (50, BITS * CHIPS_PER_BIT))
    assert np.array_equal(decode(noisy), bits)


def test_rows_are_decoded_independently():
    noisy = np.random.default_rng(1).normal(size=(8, BITS * CHIPS_PER_BIT))
    assert np.array_equal(decode(noisy), np.concatenate([decode(row[None]) for row in noisy]))


@pytest.mark.parametrize("shift", [1, 7, 39])
def test_the_code_has_no_beginning(shift):
    bits = np.random.default_rng(2).integers(0, 2, BITS).astype(np.uint8)
    assert np.array_equal(encode(np.roll(bits, shift)), np.roll(encode(bits), shift * CHIPS_PER_BIT))


def test_repeats_agree_where_there_is_a_code_word():
    chance = np.random.default_rng(3)
    noise = chance.normal(size=(100, BITS * CHIPS_PER_BIT))
    word = encode(chance.integers(0, 2, BITS).astype(np.uint8))
    assert agreement(noise + word * 0.8).min() > agreement(noise).max()
