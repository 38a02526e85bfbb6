from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.marking.payload import Payload
from rhapsode.marking.watermark import Watermark

PAYLOAD = Payload(0xBEEF, 7_654)


def in_chunks(samples: np.ndarray, lengths: list[int], sample_rate: int) -> np.ndarray:
    mark = Watermark(PAYLOAD, sample_rate, samples.shape[0])
    ends = np.minimum(np.cumsum([0, *lengths]), samples.shape[1])
    chunks = [samples[:, start:end] for start, end in zip(ends, [*ends[1:], samples.shape[1]], strict=True)]
    marked = [mark.write(chunk) for chunk in chunks]
    assert [chunk.shape for chunk in marked] == [chunk.shape for chunk in chunks], "no sample may wait for later ones"
    assert mark.close().shape == (samples.shape[0], 0)
    return np.concatenate(marked, axis=1)


@settings(max_examples=60, deadline=None)
@given(
    rate=st.sampled_from([8_000, 16_000, 22_050, 24_000, 44_100, 48_000]),
    channels=st.integers(1, 2),
    length=st.integers(0, 20_000),
    lengths=st.lists(st.integers(0, 4_000), max_size=12),
)
def test_the_result_is_the_same_for_every_chunk_schedule(rate, channels, length, lengths):
    samples = np.random.default_rng(length).uniform(-0.5, 0.5, (channels, length)).astype(np.float32)
    assert np.array_equal(in_chunks(samples, lengths, rate), in_chunks(samples, [], rate))


def test_many_small_chunks_give_the_same_as_one(voice):
    samples = voice(0.5)
    lengths = np.random.default_rng(0).integers(1, 20, 800).tolist()
    assert np.array_equal(in_chunks(samples, lengths, 24_000), in_chunks(samples, [], 24_000))


def test_no_sample_depends_on_a_later_one(voice):
    samples = voice(1.0)
    changed = samples.copy()
    changed[:, 12_345:] = 0.0
    marked, other = in_chunks(samples, [], 24_000), in_chunks(changed, [], 24_000)
    assert np.array_equal(marked[:, :12_345], other[:, :12_345])
    assert not np.array_equal(marked, other)


def test_the_echo_is_the_one_of_a_plain_convolution(voice):
    from rhapsode.marking.pattern import BLOCKS, echoes
    from rhapsode.marking.watermark import block_samples

    samples = voice(0.4)
    block = block_samples(24_000)
    taps = echoes(PAYLOAD, 24_000, BLOCKS * block)
    taps[:block] = 0.0
    expected = samples[0] + np.convolve(samples[0].astype(np.float64), taps)[: samples.shape[1]]
    assert np.allclose(in_chunks(samples, [], 24_000)[0], expected, atol=1e-6)


def test_silence_stays_silent():
    assert not in_chunks(np.zeros((1, 24_000), np.float32), [1000], 24_000).any()


@pytest.mark.parametrize("rate", [16_000, 24_000, 48_000])
def test_the_watermark_is_far_below_the_speech(voice, rate):
    samples = voice(3.0, rate)
    added = in_chunks(samples, [], rate) - samples
    below_db = 10 * np.log10(np.square(samples).sum() / np.square(added).sum())
    assert 17 < below_db < 30


def test_channels_are_marked_alike_so_that_their_mix_is_marked(voice):
    left, right = voice(1.0), voice(1.0, seed=1)
    both = in_chunks(np.concatenate((left, right)), [], 24_000)
    assert np.array_equal(both[:1], in_chunks(left, [], 24_000))
    assert np.array_equal(both[1:], in_chunks(right, [], 24_000))
