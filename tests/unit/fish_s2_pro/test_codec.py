"""The codec decodes what upstream decodes, and the same for every way of cutting the frames."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import fuzzed
from rhapsode.device.reach import Window
from rhapsode.device.slots import Rows, SlotTable
from unit.fish_s2_pro.asked import CASES, INDEX, Family, golden


@pytest.fixture(scope="module")
def exact(golden_checkpoint: Path) -> Family:
    return Family.open(golden_checkpoint, "float64")


def frames() -> torch.Tensor:
    return torch.from_numpy(golden("codec")["codes"])[None]


def rows(*slots: int) -> Rows:
    return Rows(torch.tensor(slots), SlotTable(8, 1, torch.device("cpu")))


def test_sizes_are_read_off_the_tensors(family: Family) -> None:
    config = family.codec._decoder.config
    assert family.codec.hop == config.hop == INDEX["hop"]
    assert config.books == INDEX["codebooks"]


@torch.inference_mode()
def test_one_pass_is_upstreams(family: Family) -> None:
    """Longer than the transformer's window, with residual codes past the end of their codebooks."""
    codes = frames()
    assert codes.shape[1] > 128
    assert (codes[..., 1:] >= family.codec._decoder.config.residual_codes).any()
    np.testing.assert_allclose(family.codec._decoder(codes)[0, 0], golden("codec")["waveform"], atol=2e-5)


@pytest.mark.parametrize("name", [name for name in CASES if "waveform_0" in golden(name)])
@torch.inference_mode()
def test_every_batch_of_turns_is_upstreams(family: Family, name: str) -> None:
    arrays = golden(name)
    for i in range(CASES[name]["batches"]):
        found = family.codec._decoder(torch.from_numpy(arrays[f"greedy_codes_{i}"])[None])
        np.testing.assert_allclose(found[0, 0], arrays[f"waveform_{i}"], atol=2e-5)


@torch.inference_mode()
def test_codes_are_not_changed_by_decoding_them(family: Family) -> None:
    codes = frames()
    before = codes.clone()
    family.codec._decoder(codes)
    assert torch.equal(codes, before)


@fuzzed(8)
@given(st.lists(st.integers(1, 60), min_size=2, max_size=40))
def test_every_chunk_schedule_gives_the_same_samples(exact: Family, sizes: list[int]) -> None:
    codes, at = frames(), 0
    with torch.inference_mode():
        whole = exact.codec._decoder(codes)
        assert whole.dtype == torch.float64
        state, pieces = exact.codec.state(3), []
        for size in sizes:
            piece = codes[:, at : at + size]
            if piece.shape[1]:
                pieces.append(exact.codec.decode(Window.of(piece), rows(1), state))
            at += size
        streamed = torch.cat(pieces, dim=-1)
    assert (streamed - whole[..., : streamed.shape[-1]]).abs().max() < 1e-10


@torch.inference_mode()
def test_slots_at_different_places_share_a_launch(exact: Family) -> None:
    codes = frames()[:, :40]
    whole = exact.codec._decoder(codes)
    state = exact.codec.state(4)
    exact.codec.decode(Window.of(codes[:, :7]), rows(2), state)
    both = exact.codec.decode(Window.of(torch.cat((codes[:, :5], codes[:, 7:12]))), rows(0, 2), state)
    hop = exact.codec.hop
    assert (both[0] - whole[0, :, : 5 * hop]).abs().max() < 1e-10
    assert (both[1] - whole[0, :, 7 * hop : 12 * hop]).abs().max() < 1e-10
