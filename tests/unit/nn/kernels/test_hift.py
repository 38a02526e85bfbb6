"""CosyVoice3's vocoder by kernels is the vocoder by modules, however its frames are cut."""

import pytest
import torch

from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.nn.hift.net import HiftNet
from rhapsode.nn.hift.source import counter_noise
from unit.cosyvoice3.sound import hift

fused = pytest.importorskip("rhapsode.nn.fused.hift", reason="needs Triton")

LEAST_DB = {torch.float32: 90, torch.float16: 45}


def make(device: torch.device, kind: torch.dtype | None) -> HiftNet:
    net = hift.__wrapped__("float32").to(device)
    if kind is not None:
        fused.fuse(net, kind)
    return net


def spoken(net: HiftNet, mel: torch.Tensor, cuts: list[int]) -> torch.Tensor:
    """The samples of two requests, in slots 2 and 0, whose frames are cut alike."""
    ahead, made, start = net.settings.lookahead, [], 0
    state, table = net.state(3), SlotTable(3, 0, mel.device)
    table.join([SlotRow(slot=slot, seed=slot) for slot in (0, 2)])
    for due in cuts:
        rows = Rows(torch.tensor([2, 0], device=mel.device), table)
        window = mel.new_zeros(2, due + ahead, mel.shape[2])
        known = mel[:, start : start + due + ahead]
        window[:, : known.shape[1]] = known
        present = (torch.arange(due + ahead, device=mel.device) < known.shape[1]).expand(2, -1)
        made.append(net(window, present, rows, state, counter_noise))
        table.advance(rows.slots, due)
        start += due
    return torch.cat(made, dim=1)


@pytest.mark.parametrize("kind", LEAST_DB)
def test_kernels_say_what_modules_say(device, kind) -> None:
    net = make(device, None)
    mel = torch.randn(2, 4, net.conv_pre.in_channels, device=device)
    expected = spoken(net, mel, [4])
    found = spoken(make(device, kind), mel, [1, 3])
    assert found.shape == expected.shape
    assert expected.std() > 0.01
    noise = (found - expected).square().sum()
    assert 10 * torch.log10(expected.square().sum() / noise) > LEAST_DB[kind]
