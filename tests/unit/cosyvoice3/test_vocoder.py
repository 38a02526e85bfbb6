"""The vocoder: equal to upstream in one pass, and equal to one pass however its frames are cut."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from fuzzing import fuzzed
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.errors import CheckpointError
from rhapsode.models.cosyvoice3.vocoder.parts import hift_net
from rhapsode.models.cosyvoice3.vocoder.settings import hift_settings
from rhapsode.nn.hift.net import HiftNet
from rhapsode.nn.hift.source import counter_noise
from tiny.cosyvoice3_sound import TinySound, hift_section, hift_tensors
from unit.cosyvoice3.sound import context, golden, hift, in_memory

TINY = TinySound()


def spoken(net: HiftNet, mel: torch.Tensor, cuts, noise=counter_noise, seed: int = 7) -> torch.Tensor:
    """The samples of all frames, `[samples]`, made in chunks of these sizes in slot 1."""
    ahead, made, start = net.settings.lookahead, [], 0
    state, table = net.state(2), SlotTable(2, 0, torch.device("cpu"))
    table.join([SlotRow(slot=1, seed=seed)])
    for due in cuts:
        rows = Rows(torch.tensor([1]), table)
        window = torch.full((1, due + ahead, mel.shape[1]), 9.0, dtype=mel.dtype)
        known = mel[start : start + due + ahead]
        window[0, : len(known)] = known
        present = torch.arange(due + ahead)[None] < len(known)
        made.append(net(window, present, rows, state, noise)[0])
        table.advance(rows.slots, due)
        start += due
    return torch.cat(made)


def mel_of(frames: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(frames, TINY.mel)))


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("cuts", [(3,), (1, 1, 1), (1, 2)])
def test_samples_equal_upstreams_one_pass(cuts):
    found, net = golden("vocoder-tiny"), hift("float32", upstream=True)
    table = torch.from_numpy(found["noise"].astype(np.float32)).view(-1, net.settings.hop * 9)

    def noise(rows, frames, values):
        return table[(rows.steps[:, None] + torch.arange(frames)).clamp(max=len(table) - 1)]

    made = spoken(net, torch.from_numpy(found["mel"].T.copy()), cuts, noise)
    assert float((made - torch.from_numpy(found["wav"])).abs().max()) < 1e-4


def test_fundamental_frequencies_equal_upstreams():
    found, net = golden("vocoder-tiny"), hift("float32", upstream=True).f0_predictor
    mel = torch.nn.functional.pad(torch.from_numpy(found["mel"])[None], (0, 3))
    made = net(mel, torch.tensor([0]), net.state(1), 0)
    assert np.allclose(made[0].numpy(), found["f0"], rtol=1e-9, atol=0)


@fuzzed(20)
@given(cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_every_schedule_gives_the_same_samples(cuts, seed):
    net, mel = hift(), mel_of(sum(cuts), seed)
    made, one = spoken(net, mel, cuts), spoken(net, mel, [len(mel)])
    assert one.std() > 1e-3
    assert float((made - one).abs().max()) < 1e-8


def test_the_phase_is_the_same_to_the_bit_however_a_signal_is_cut():
    source, slots = hift("float32").m_source, torch.tensor([0])
    f0 = torch.from_numpy(np.random.default_rng(3).uniform(60, 400, (1, 400)).astype(np.float32))
    quiet = torch.zeros(1, 400, source.settings.hop * 9)

    def run(sizes) -> torch.Tensor:
        state, made, start = source.state(1), [], 0
        for size in sizes:
            made.append(source(f0[:, start : start + size], quiet[:, :size], slots, state, 0))
            start += size
        return torch.cat(made, dim=1)

    assert torch.equal(run([400]), run([1] * 400))
    assert torch.equal(run([400]), run([7, 93, 250, 50]))


def test_a_frame_changes_no_sample_before_its_lookahead():
    net, mel, at = hift(), mel_of(20), 12
    changed = mel.clone()
    changed[at] += 1.0
    differs = (spoken(net, mel, [20]) != spoken(net, changed, [20])).nonzero()
    assert int(differs[0]) == net.settings.hop * (at - 5) + net.settings.hop - 3


def test_noise_depends_on_the_seed():
    net, mel = hift(), mel_of(6)
    one, same, other = (spoken(net, mel, [6], seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_chunk_asks_nothing_of_its_values_where_that_would_mean_waiting():
    net = hift("float32")
    state, rows = net.state(2), Rows(torch.tensor([1]), SlotTable(2, 0, torch.device("cpu")))
    window = mel_of(4 + net.settings.lookahead).float()[None]
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = net(window, torch.ones(window.shape[:2]) > 0, rows, state, counter_noise)
        with pytest.raises(DataDependentOutputException):
            made.sum().item()


def test_rows_of_a_batch_do_not_see_each_other():
    net, mels = hift(), [mel_of(8, seed) for seed in (1, 2)]
    state, table = net.state(2), SlotTable(2, 0, torch.device("cpu"))
    table.join([SlotRow(slot=slot, seed=7) for slot in (0, 1)])
    rows = Rows(torch.tensor([1, 0]), table)
    window = torch.nn.functional.pad(torch.stack(mels), (0, 0, 0, net.settings.lookahead))
    present = (torch.arange(window.shape[1]) < 8)[None].expand(2, -1)
    for made, mel in zip(net(window, present, rows, state, counter_noise), mels, strict=True):
        assert float((made - spoken(net, mel, [8])).abs().max()) < 1e-12


@pytest.mark.parametrize(("name", "said"), [("conv_pre.bias", "lacks"), ("f0_predictor.extra", "nothing here uses")])
def test_tensors_are_loaded_strictly_by_name(name, said):
    tensors = hift_tensors(TINY)
    if name in tensors:
        del tensors[name]
    else:
        tensors[name] = np.zeros(1, np.float32)
    with pytest.raises(CheckpointError, match=f"{said} the tensor '{name}'"):
        hift_net(hift_settings(hift_section(TINY)), context(), lambda: in_memory(tensors))
