"""A vocoder that sees both sides, by kernels: samples and tails are those of the modules, at both ends, in any cut."""

import pytest
import torch

from rhapsode.checkpoints.random import randomize
from rhapsode.nn import kernels
from rhapsode.nn.derived import derive
from rhapsode.nn.snake import Snake
from rhapsode.nn.symmetric import SymmetricVocoder
from tiny.snake import negate_some

fused = pytest.importorskip("rhapsode.nn.fused.symmetric", reason="needs Triton")

SLOTS, INPUTS, FRAMES = 4, 8, 6
NEAR = {torch.float32: 1e-4, torch.float16: 3e-2}


def make(device: torch.device, dtype: torch.dtype, dim: int = 32, rates: tuple[int, ...] = (2, 3)) -> SymmetricVocoder:
    with torch.device("meta"):
        net = SymmetricVocoder(INPUTS, dim, rates, Snake)
    randomize(net, device=device, dtype=dtype)
    for name, parameter in net.named_parameters():
        if name.endswith("alpha"):
            parameter.data.uniform_(0.5, 1.5)
        if name.endswith("bias"):
            parameter.data.uniform_(-0.3, 0.3)
        if "conv2" in name:
            parameter.data *= 0.3
    negate_some(net)
    derive(net)
    return net


def snr_db(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(10 * torch.log10(expected.square().sum() / (found - expected).square().sum()))


@pytest.mark.parametrize(("kind", "least_db"), [(torch.float32, 90), (torch.float16, 40)])
def test_kernels_say_what_modules_say(device, kind, least_db):
    net = make(device, kind)
    by_kernels = fused.FusedSymmetricVocoder(net)
    lengths = [FRAMES, 3]  # one row ends early
    n = FRAMES + net.lookahead
    x = torch.randn(2, n, INPUTS, device=device).to(kind)
    present = torch.arange(n, device=device) < torch.tensor(lengths, device=device)[:, None]
    slots = torch.tensor([2, 0], device=device)
    plain, state = net.state(SLOTS), net.state(SLOTS)
    at, heard = 0, []
    for size in (1, 4, n - 5):
        piece, there = x[:, at : at + size], present[:, at : at + size]
        with kernels.use("off"):
            expected = net(piece.transpose(1, 2), there, slots, plain)
        with kernels.use("always"):
            found = by_kernels(piece, there, slots, state)
        heard.append((found, expected.float()))
        at += size
    found, expected = (torch.cat(pieces, dim=-1)[..., net.lookahead * net.hop :] for pieces in zip(*heard, strict=True))
    for row, length in enumerate(lengths):
        end = length * net.hop
        assert snr_db(found[row, :, :end], expected[row, :, :end]) > least_db
    assert torch.equal(state.given, plain.given)
    assert torch.equal(state.present, plain.present)
    scale = float(plain.tails.abs().max())
    torch.testing.assert_close(state.tails, plain.tails, rtol=0.05, atol=NEAR[kind] * max(1.0, scale))


def test_wide_layers_run_as_two_convolutions(device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rhapsode.nn.fused.vocoder.MAX_CHANNELS", 8)
    net = make(device, torch.float32, rates=(3,))
    x = torch.randn(1, 4 + net.lookahead, INPUTS, device=device)
    present = torch.arange(x.shape[1], device=device)[None] < 4
    slots = torch.tensor([1], device=device)
    with kernels.use("off"):
        expected = net(x.transpose(1, 2), present, slots, net.state(SLOTS))
    with kernels.use("always"):
        found = fused.FusedSymmetricVocoder(net)(x, present, slots, net.state(SLOTS))
    begin = net.lookahead * net.hop
    assert snr_db(found[..., begin:], expected[..., begin:]) > 90


def test_a_batch_is_cut_where_its_buffers_would_be_too_large(device, monkeypatch: pytest.MonkeyPatch):
    net = make(device, torch.float32, rates=(2,))
    by_kernels = fused.FusedSymmetricVocoder(net)
    x, slots = torch.randn(3, 2, INPUTS, device=device), torch.tensor([0, 3, 1], device=device)
    present = torch.ones(3, 2, dtype=torch.bool, device=device)
    with kernels.use("always"):
        together = by_kernels(x, present, slots, net.state(SLOTS))
        monkeypatch.setattr(fused, "MAX_FRAMES", 4)
        assert torch.equal(by_kernels(x, present, slots, net.state(SLOTS)), together)


def test_the_higgs_codec_by_kernels(device):
    """Codes out of range included: what they mean cannot be asked on a GPU."""
    from rhapsode.models.higgs.codec.decoder import HiggsDecoder
    from rhapsode.models.higgs.codec.fused import fuse
    from rhapsode.models.higgs.codec.settings import CodecSettings, DacSettings

    acoustic = DacSettings(INPUTS, 2, 32, (2, 3), (2, 3))
    with torch.device("meta"):
        net = HiggsDecoder(CodecSettings(codebook_size=9, codebook_dim=4, acoustic=acoustic, target_bandwidths=(36,)))
    randomize(net, device=device)
    negate_some(net)
    derive(net)
    fuse(net)
    codes = torch.randint(-1, 10, (2, 5, net.settings.quantizers), device=device)
    present = torch.ones(2, 5, dtype=torch.bool, device=device)
    slots = torch.tensor([3, 1], device=device)
    with kernels.use("off"):
        expected = net(codes, present, slots, net.state(SLOTS))
    with kernels.use("always"):
        found = net(codes, present, slots, net.state(SLOTS))
    assert snr_db(found, expected) > 90
