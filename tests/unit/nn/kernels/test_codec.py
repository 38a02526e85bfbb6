"""The codec's decoder by kernels is the decoder by modules: latents, samples and what slots keep."""

import pytest
import torch

from rhapsode.checkpoints.random import randomize
from rhapsode.models.fish_s2_pro import codec_config
from rhapsode.models.fish_s2_pro import decoder as fish
from rhapsode.models.qwen3_tts.decoder import CodecDecoder, CodecDecoderConfig
from rhapsode.nn import kernels
from rhapsode.nn.derived import derive
from tiny.snake import negate_some

fused = pytest.importorskip("rhapsode.models.qwen3_tts.fused", reason="needs Triton")

SLOTS = 4
CONFIG = CodecDecoderConfig(
    codebook_dim=16, codebook_size=8, num_quantizers=4, latent_dim=16, hidden_size=16, intermediate_size=32,
    num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=16, sliding_window=4,
    upsample_rates=(2, 3), upsampling_ratios=(2, 2), decoder_dim=24,
)  # fmt: skip
NEAR = {torch.float32: 1e-4, torch.float16: 3e-2}


def make(device: torch.device, dtype: torch.dtype = torch.float32) -> CodecDecoder:
    with torch.device("meta"):
        net = CodecDecoder(CONFIG)
    randomize(net, device=device, dtype=dtype)
    for name, parameter in net.named_parameters():
        if name.endswith(("alpha", "beta", "bias")):
            parameter.data.uniform_(-0.3, 0.3)
        if "conv2" in name:
            parameter.data *= 0.3
    derive(net)
    with kernels.use("always"):
        fused.fuse(net)
    return net


def codes(device: torch.device, batch: int, frames: int) -> torch.Tensor:
    return torch.randint(0, 8, (batch, frames, 4), device=device)


def snr_db(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(10 * torch.log10(expected.square().sum() / (found - expected).square().sum()))


@pytest.mark.parametrize(("kind", "least_db"), [(torch.float32, 90), (torch.float16, 40)])
def test_kernels_say_what_modules_say(device, kind, least_db):
    net, frames = make(device, kind), codes(device, 3, 7)
    plain, by_kernels = net.state(SLOTS), net.state(SLOTS)
    slots = torch.tensor([2, 0, 3], device=device)
    for piece in frames.split([1, 2, 4], dim=1):
        with kernels.use("off"):
            latents = net.latents(piece, slots, plain)
            samples = net.waveform(latents, slots, plain)
        with kernels.use("always"):
            torch.testing.assert_close(net.latents(piece, slots, by_kernels), latents, rtol=0.02, atol=NEAR[kind])
            found = net.waveform(latents, slots, by_kernels)
        assert found.shape == samples.shape
        assert found.dtype == torch.float32
        assert snr_db(found, samples) > least_db
    for kept, expected in zip(by_kernels.tensors(), plain.tensors(), strict=True):
        scale = float(expected.abs().max())
        torch.testing.assert_close(kept, expected, rtol=0.05, atol=NEAR[kind] * max(1.0, scale))


@pytest.mark.parametrize("lengths", [[1] * 9, [9], [2, 6, 1]])
def test_every_cut_gives_the_same_samples(device, lengths):
    net, frames = make(device), codes(device, 1, 9)
    state, slots = net.state(SLOTS), torch.tensor([1], device=device)
    with kernels.use("always"):
        streamed = torch.cat([net(piece, slots, state) for piece in frames.split(lengths, dim=1)], dim=-1)
    whole = net(frames)
    assert snr_db(streamed, whole) > 90


def test_a_batch_is_cut_where_its_buffers_would_be_too_large(device, monkeypatch: pytest.MonkeyPatch):
    net, frames = make(device), codes(device, 3, 2)
    slots = torch.tensor([0, 3, 1], device=device)
    with kernels.use("always"):
        together = net(frames, slots, net.state(SLOTS))
        monkeypatch.setattr("rhapsode.nn.fused.vocoder.MAX_FRAMES", 4)
        assert torch.equal(net(frames, slots, net.state(SLOTS)), together)


def test_slots_of_others_are_left_alone(device):
    net = make(device)
    state = net.state(SLOTS)
    for tensor in state.tensors():
        if tensor.is_floating_point():
            tensor.normal_()
    before = [tensor.clone() for tensor in state.tensors()]
    with kernels.use("always"):
        net(codes(device, 2, 2), torch.tensor([3, 0], device=device), state)
    for kept, was in zip(state.tensors(), before, strict=True):
        assert torch.equal(kept[[1, 2, 4]], was[[1, 2, 4]])
        assert not torch.equal(kept[[0, 3]], was[[0, 3]])


def test_switched_off_it_is_the_modules(device):
    net, frames = make(device), codes(device, 1, 3)
    slots = torch.tensor([2], device=device)
    with kernels.use("off"):
        found = net(frames, slots, net.state(SLOTS))
    net.fused = None
    with kernels.use("off"):
        assert torch.equal(found, net(frames, slots, net.state(SLOTS)))


def test_float64_has_no_kernels(device):
    assert make(device, torch.float64).fused is None


FISH = codec_config.FishCodecConfig(
    latent=64, code_dim=4, semantic_codes=9, residual_codes=5, residual_books=2, ratios=(2, 2), decoder_dim=16,
    decoder_rates=(3, 2), decoder_layers=2, ffn=32,
)  # fmt: skip


def test_another_codec_with_rounded_rotary_tables_and_tanh(device, monkeypatch: pytest.MonkeyPatch):
    """Fish S2-Pro: more frames than its window, cut into passes of its transformer."""
    from rhapsode.models.fish_s2_pro import fused as fish_fused

    monkeypatch.setattr(fish, "FRAME_WINDOW", 4)
    monkeypatch.setattr(fish_fused, "MAX_POSITIONS", 3)
    with torch.device("meta"):
        net = fish.FishCodecDecoder(FISH)
    randomize(net, device=device)
    for name, parameter in net.named_parameters():
        if name.endswith("alpha"):
            parameter.data.uniform_(0.5, 1.5)
        if "conv2" in name:
            parameter.data *= 0.3
    negate_some(net)
    derive(net)
    frames = torch.randint(0, 9, (2, 7, 3), device=device)  # some past the end of the residual codebooks
    plain, by_kernels = net.state(SLOTS), net.state(SLOTS)
    slots = torch.tensor([2, 0], device=device)
    for piece in frames.split([1, 4, 2], dim=1):
        with kernels.use("off"):
            expected = net(piece, slots, plain)
        with kernels.use("always"):
            if net.fused is None:
                fish_fused.fuse(net)
            found = net(piece, slots, by_kernels)
        assert snr_db(found, expected) > 80
        assert found.abs().max() < 1
    assert torch.equal(by_kernels.transformer.position, plain.transformer.position)
    torch.testing.assert_close(by_kernels.tails, plain.tails, rtol=1e-3, atol=1e-3)
