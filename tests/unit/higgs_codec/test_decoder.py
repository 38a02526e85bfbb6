"""The codec decodes what upstream decodes, and the same for every way of cutting the frames, up to both ends."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny import higgs_codec as tiny
from unit.higgs_codec.asked import SLOTS, codec, golden, one_pass, rows, streamed, window
from unit.higgs_codec.asked import settings as sizes_of

CODES = torch.from_numpy(tiny.frames(34))
HOP, LAST_S = tiny.HOP, 0.3


def codes_of(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 16, (length, 3), generator=torch.Generator().manual_seed(seed))


def test_the_look_ahead_is_the_context_of_the_settings():
    worker = codec()
    assert worker.reach.lookahead == sizes_of().context.after
    assert worker.reach.incremental
    assert (worker.hop, worker.channels) == (HOP, 1)


def test_the_waveform_is_upstreams():
    np.testing.assert_allclose(streamed(codec(), CODES, []), golden()["waveform"], atol=1e-5)
    exact = streamed(codec("float64"), CODES, [])
    np.testing.assert_allclose(exact[::5], golden()["exact"], atol=1e-12)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 34), st.lists(st.integers(1, 12), max_size=12))
def test_every_chunk_schedule_gives_the_samples_of_one_pass(length: int, sizes: list[int]):
    codes = CODES[:length]
    found, expected = streamed(codec("float64"), codes, sizes), one_pass(codes)
    assert found.shape == (length * HOP,)
    assert (found - expected).abs().max() < 1e-12


@pytest.mark.parametrize("sizes", [[1] * 34, [1, 2, 4, 8, 16], [33, 1]])
def test_the_last_300_ms_are_those_of_one_pass(sizes):
    samples = int(LAST_S * tiny.SAMPLE_RATE)
    found, expected = streamed(codec("float64"), CODES, sizes), one_pass(CODES)
    assert (found - expected)[-samples:].abs().max() < 1e-12
    assert expected[-samples:].std() > 0.01


@pytest.mark.parametrize("length", [1, 2, 9, 10, 11])
def test_an_utterance_shorter_than_the_context_is_that_of_one_pass(length):
    codes = codes_of(length)
    assert (streamed(codec("float64"), codes, [1, 1]) - one_pass(codes)).abs().max() < 1e-12


def test_one_changed_frame_is_heard_as_far_as_upstream_says():
    """The measured context: from the first sample that changes to the last."""
    worker, frame = codec("float64"), int(golden()["perturbed_frame"])
    other = CODES.clone()
    other[frame] = (other[frame] + 5) % 16
    changed = (streamed(worker, CODES, [3] * 11) != streamed(worker, other, [3] * 11)).nonzero().flatten()
    first, last = golden()["changed_samples"]
    assert abs(int(changed[0]) - first) < 20  # the faintest changes are smaller than rounding, here and there
    assert abs(int(changed[-1]) - last) < 20
    context = sizes_of().context
    assert changed[0] // HOP == frame - context.after
    assert changed[-1] // HOP == frame + context.before


def test_a_frame_sounds_as_soon_as_its_context_is_complete():
    """Frames after the look-ahead, whatever they are, change nothing."""
    worker, ahead = codec("float64"), codec("float64").reach.lookahead
    for later in (0, 7):
        codes = torch.cat([CODES[: ahead + 1], torch.full((20, 3), later)])
        with torch.inference_mode():
            first = worker.decode(window(worker, codes, 0, 1), rows(0), worker.state(SLOTS))
        assert (first[0, 0] - one_pass(codes)[:HOP]).abs().max() < 1e-12


@torch.inference_mode()
def test_rows_at_different_places_share_a_launch():
    """One in the middle, one that ends within the launch, one whose last frames were seen before, and padding."""
    worker = codec("float64")
    state, scratch = worker.state(SLOTS), SLOTS
    streams = {0: (codes_of(30, 1), 4), 1: (codes_of(16, 2), 3), 2: (codes_of(9, 3), 6)}
    for slot, (codes, at) in streams.items():
        worker.decode(window(worker, codes, 0, at), rows(slot), state)
    windows = [window(worker, codes, at, 3) for codes, at in streams.values()]
    frames = torch.cat([*(one.frames for one in windows), torch.zeros_like(windows[0].frames)])
    present = torch.cat([*(one.present for one in windows), torch.zeros_like(windows[0].present)])
    together = type(windows[0])(frames, 3, worker.reach, present)
    found = worker.decode(together, rows(*streams, scratch), state)
    for row, (codes, at) in zip(found, streams.values(), strict=False):
        expected = one_pass(codes)[at * HOP : (at + 3) * HOP]
        assert (row[0] - expected).abs().max() < 1e-12


@torch.inference_mode()
def test_a_cleared_slot_remembers_nothing():
    worker = codec("float64")
    state = worker.state(SLOTS)
    streamed(worker, codes_of(12, 4), [5], state=state)
    state.clear(torch.tensor([1]))
    assert (streamed(worker, CODES, [1, 5], state=state) - one_pass(CODES)).abs().max() < 1e-12


@torch.inference_mode()
def test_slots_of_others_are_left_alone():
    worker = codec()
    state = worker.state(SLOTS)
    state.vocoder.tails.normal_()
    before = [tensor.clone() for tensor in state.tensors()]
    worker.decode(window(worker, CODES, 0, 1), rows(3), state)
    for now, was in zip(state.tensors(), before, strict=True):
        assert torch.equal(now[[0, 1, 2, 4]], was[[0, 1, 2, 4]])


def test_a_code_that_no_codebook_has_counts_as_the_nearest():
    codes = CODES[:12].clone()
    codes[5, 1], codes[6, 2] = 99, -3
    expected = codes.clamp(0, 15)
    assert torch.equal(streamed(codec(), codes, [1]), streamed(codec(), expected, [1]))
