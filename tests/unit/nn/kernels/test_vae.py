"""VoxCPM2's VAE by kernels is the VAE by modules: its samples, and what slots keep."""

import pytest
import torch

from rhapsode.checkpoints.random import randomize
from rhapsode.models.voxcpm2.config import VaeConfig
from rhapsode.models.voxcpm2.vae import VaeDecoder
from rhapsode.nn import kernels
from rhapsode.nn.derived import derive
from tiny.snake import negate_some

fused = pytest.importorskip("rhapsode.models.voxcpm2.fused", reason="needs Triton")

CONFIG = VaeConfig(latent_dim=8, decoder_dim=32, decoder_rates=(2, 2), out_sample_rate=48_000)
LEAST_DB = {torch.float32: 90, torch.float16: 45}


def make(device: torch.device) -> VaeDecoder:
    with torch.device("meta"):
        net = VaeDecoder(CONFIG)
    torch.manual_seed(1)
    randomize(net, device=device, dtype=torch.float32)
    for name, parameter in net.named_parameters():
        if name.endswith("alpha"):
            parameter.data.uniform_(0.5, 1.5)
        elif "embed" in name or name.endswith("bias"):
            parameter.data.uniform_(-0.8, 0.8)
    negate_some(net)
    derive(net)
    return net


@pytest.mark.parametrize("kind", LEAST_DB)
def test_kernels_say_what_modules_say(device, kind) -> None:
    plain, by_kernels = make(device), make(device)
    fused.fuse(by_kernels, kind)
    states = plain.state(4), by_kernels.state(4)
    slots = torch.tensor([2, 0], device=device)
    assert states[1].tails.dtype == kind
    with kernels.use("always"):
        for frames in (1, 7):  # shorter and longer than the tails
            latents = torch.randn(2, frames, CONFIG.latent_dim, device=device)
            expected, found = (
                net(latents, slots, state) for net, state in zip((plain, by_kernels), states, strict=True)
            )
            assert found.shape == expected.shape == (2, 1, frames * CONFIG.hop)
            noise = (found - expected).square().sum()
            assert 10 * torch.log10(expected.square().sum() / noise) > LEAST_DB[kind]
            assert expected.std() > 0.01
    torch.testing.assert_close(states[1].tails.float(), states[0].tails, rtol=0.02, atol=0.02)


def test_a_decoder_of_full_convolutions_keeps_its_modules(device) -> None:
    net = VaeDecoder(VaeConfig(latent_dim=8, decoder_dim=16, decoder_rates=(2,), depthwise=False))
    fused.fuse(net, torch.float16)
    assert net.fused is None
