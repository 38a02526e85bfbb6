"""A symmetric HiFT vocoder streams exactly: equal to one pass over the whole signal, however its frames are cut."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import fuzzed
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.device.trace import Trace
from rhapsode.nn.derived import derive
from rhapsode.nn.hift.block import SymmetricBlock
from rhapsode.nn.hift.lags import HiftLags
from rhapsode.nn.hift.sampled_source import CounterDraws
from rhapsode.nn.hift.settings import HiftSettings
from rhapsode.nn.hift.symmetric import SymmetricHift

MEL = 5
DRAWS = CounterDraws()
PUBLISHED = HiftSettings(
    in_channels=80,
    base_channels=512,
    nb_harmonics=8,
    sampling_rate=24_000,
    upsample_rates=(8, 5, 3),
    upsample_kernel_sizes=(16, 11, 7),
    n_fft=16,
    hop_len=4,
    resblock_kernel_sizes=(3, 7, 11),
    resblock_dilation_sizes=([1, 3, 5],) * 3,
    source_resblock_kernel_sizes=(7, 7, 11),
    source_resblock_dilation_sizes=([1, 3, 5],) * 3,
    conv_pre_look_right=3,
    f0_channels=512,
    nsf_voiced_threshold=10.0,
)
TINY = HiftSettings(
    in_channels=MEL,
    base_channels=8,
    nb_harmonics=2,
    sampling_rate=2_000,
    upsample_rates=(3, 4, 2),
    upsample_kernel_sizes=(7, 8, 4),
    n_fft=8,
    hop_len=2,
    resblock_kernel_sizes=(3, 5),
    resblock_dilation_sizes=([1, 2],) * 2,
    source_resblock_kernel_sizes=(3, 5, 7),
    source_resblock_dilation_sizes=([1, 2],) * 3,
    conv_pre_look_right=2,
    f0_channels=4,
    nsf_voiced_threshold=50.0,
)


def made(settings: HiftSettings = TINY) -> SymmetricHift:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        net = SymmetricHift(settings).double().requires_grad_(False)
        for name, parameter in net.named_parameters():
            parameter.normal_(float(name.endswith("alpha")), 0.3)
    net.f0_predictor.classifier.weight.mul_(400)
    derive(net)
    return net


@pytest.fixture(scope="module")
def net() -> SymmetricHift:
    return made()


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.inference_mode():
        yield


def mel_of(frames: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(frames, MEL, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Stream:
    """Requests of one length, each in a slot of its own, fed as the engine feeds an incremental worker."""

    def __init__(self, net: SymmetricHift, slots: list[int], seed: int = 7) -> None:
        self.net, self.slots, self.state = net, slots, net.state(max(slots) + 1)
        self.table = SlotTable(max(slots) + 1, 0, torch.device("cpu"))
        self.table.join([SlotRow(slot=slot, seed=seed) for slot in slots])

    def spoken(self, mel: torch.Tensor, cuts: list[int]) -> torch.Tensor:
        """The samples of `mel [B, T, C]`, in chunks of these sizes."""
        late, chunks, start = self.net.lookahead, [], 0
        frames = F.pad(mel, (0, 0, 0, late), value=9.0)
        for due in cuts:
            end = sum(cuts[: len(chunks) + 1]) + late
            rows = Rows(torch.tensor(self.slots), self.table)
            present = (torch.arange(start, end) < mel.shape[1]).expand(len(mel), -1)
            samples = self.net(frames[:, start:end], present, rows, self.state, DRAWS)
            chunks.append(samples[:, -due * self.net.settings.hop :])
            start = end
        return torch.cat(chunks, dim=1)


def spoken(net: SymmetricHift, mel: torch.Tensor, cuts: list[int], seed: int = 7) -> torch.Tensor:
    return Stream(net, [1], seed).spoken(mel[None], cuts)[0]


# --- one pass, as the networks are published ---


def in_one_pass(net: SymmetricHift, mel: torch.Tensor) -> torch.Tensor:
    """The samples of all frames, by whole convolutions and torch's own transforms."""
    settings, x = net.settings, mel.T[None]
    source = _source(net, _f0(net, x))
    window = torch.hann_window(settings.n_fft, dtype=x.dtype)
    spectrum = torch.stft(source, settings.n_fft, settings.hop_len, window=window, return_complex=True)
    columns = torch.cat((spectrum.real, spectrum.imag), dim=1)
    x = F.conv1d(x, net.conv_pre.weight, net.conv_pre.bias, padding=settings.conv_pre_look_right)
    for i, up in enumerate(net.ups):
        kernel, rate = settings.upsample_kernel_sizes[i], settings.upsample_rates[i]
        padding = (kernel - rate) // 2
        x = F.conv_transpose1d(F.leaky_relu(x, 0.1), up.conv.weight, up.conv.bias, rate, padding)
        x = F.pad(x, (1, 0), "reflect") if i == len(net.ups) - 1 else x
        down, stride = net.source_downs[i], settings.source_strides[i]
        told = F.conv1d(columns, down.weight, down.bias, stride, stride // 2)
        x = x + _block(net.source_resblocks[i], told)
        x = sum(_block(block, x) for block in net.blocks_of(i)) / len(net.blocks_of(i))
    x = F.conv1d(F.leaky_relu(x), net.conv_post.weight, net.conv_post.bias, padding=3)
    loud, phase = x.chunk(2, dim=1)
    polar = torch.polar(loud.exp().clamp(max=100), phase.sin())
    return torch.istft(polar, settings.n_fft, settings.hop_len, window=window)[0].clamp(-0.99, 0.99)


def _f0(net: SymmetricHift, x: torch.Tensor) -> torch.Tensor:
    for conv in net.f0_predictor.condnet.values():
        x = F.elu(F.conv1d(x, conv.weight, conv.bias, padding=1))
    return net.f0_predictor.classifier(x.transpose(1, 2))[..., 0].abs()


def _source(net: SymmetricHift, f0: torch.Tensor) -> torch.Tensor:
    settings, table = net.settings, SlotTable(1, 0, torch.device("cpu"))
    table.join([SlotRow(slot=0, seed=7)])
    rows = Rows(torch.tensor([0]), table)
    each = f0.repeat_interleave(settings.hop, dim=1)[..., None] * torch.arange(1, settings.harmonics + 1)
    turns = (each / settings.sampling_rate).cumsum(1) % 1
    voiced = (f0 > settings.nsf_voiced_threshold).double().repeat_interleave(settings.hop, dim=1)
    sines = (turns * 2 * math.pi + DRAWS.starts(rows, settings.harmonics)[:, None]).sin() * 0.1 * voiced[..., None]
    size = net.m_source.l_linear.weight.norm() * (0.003 * voiced + 0.1 / 3 * (1 - voiced))
    noise = DRAWS.noise(rows, torch.arange(f0.shape[1])[None], settings.hop)
    assert 0 < float(voiced.mean()) < 1
    return (net.m_source.l_linear(sines)[..., 0] + size * noise).tanh()


def _block(block: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    assert isinstance(block, SymmetricBlock)
    for i, first in enumerate(block.convs1):
        half, second = first.weight.shape[2] // 2, block.convs2[i]
        y = block.activations1[i](x)
        y = F.conv1d(y, first.weight, first.bias, padding=half * first.dilation, dilation=first.dilation)
        x = x + F.conv1d(block.activations2[i](y), second.weight, second.bias, padding=half)
    return x


@pytest.mark.parametrize("frames", [3, 9, 24])
def test_a_stream_equals_one_pass(net: SymmetricHift, frames: int) -> None:
    mel = mel_of(frames, 1)
    wanted = in_one_pass(net, mel)
    assert float(wanted.std()) > 0.01
    assert wanted.shape == (frames * net.settings.hop,)
    assert float((spoken(net, mel, [frames]) - wanted).abs().max()) < 1e-10
    assert float((spoken(net, mel, [1] * frames) - wanted).abs().max()) < 1e-10


@fuzzed(20)
@given(cuts=st.lists(st.integers(1, 7), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_every_schedule_gives_the_same_samples(net: SymmetricHift, cuts: list[int], seed: int) -> None:
    mel = mel_of(sum(cuts), seed)
    assert float((spoken(net, mel, cuts) - spoken(net, mel, [len(mel)])).abs().max()) < 1e-10


def test_a_frame_changes_samples_as_far_before_it_as_is_declared(net: SymmetricHift) -> None:
    mel, at = mel_of(40), 25
    changed = mel.clone()
    changed[at] += 1.0
    differs = (spoken(net, mel, [40]) - spoken(net, changed, [40])).abs() > 1e-9
    first = int(differs.nonzero()[0]) // net.settings.hop
    assert at - net.lookahead <= first <= at - net.lookahead + 1


def test_the_published_sizes_look_20_frames_ahead() -> None:
    lags = HiftLags(PUBLISHED)
    assert lags.lookahead == 20
    assert lags.stages[-1].after.rows + 3 + 2 == 2312, "columns, of which a frame has 120"


def test_rows_of_a_batch_do_not_see_each_other(net: SymmetricHift) -> None:
    mels = torch.stack([mel_of(8, seed) for seed in (1, 2)])
    for together, mel in zip(Stream(net, [1, 0]).spoken(mels, [3, 5]), mels, strict=True):
        assert float((together - spoken(net, mel, [3, 5])).abs().max()) < 1e-10


def test_a_slot_is_new_once_it_is_cleared(net: SymmetricHift) -> None:
    stream, first, second = Stream(net, [1]), mel_of(6, 1)[None], mel_of(6, 2)[None]
    stream.spoken(first, [6])
    stream.state.clear(torch.tensor([1]))
    assert torch.equal(stream.spoken(second, [6]), Stream(net, [1]).spoken(second, [6]))


def test_noise_depends_on_the_seed(net: SymmetricHift) -> None:
    one, same, other = (spoken(net, mel_of(6), [6], seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_traced_chunk_is_the_chunk(net: SymmetricHift) -> None:
    """So it asks nothing of its values, which would mean waiting on a GPU."""
    stream, mel, present = Stream(net, [1]), torch.zeros(1, 3, MEL).double(), torch.ones(1, 3) > 0
    slots, state, table = torch.tensor([1]), stream.state, stream.table

    def launch(mel: torch.Tensor, present: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        return net(mel, present, Rows(slots, table), state, DRAWS)

    trace = Trace(launch, (mel, present, slots), (*state.tensors(), *table.tensors()))
    state.clear(slots)
    table.join([SlotRow(slot=1, seed=7)])
    frames = F.pad(mel_of(24, 3), (0, 0, 0, net.lookahead + 3), value=9.0)
    chunks = []
    for start in range(0, 24 + net.lookahead, 3):
        mel.copy_(frames[None, start : start + 3])
        present.copy_((torch.arange(start, start + 3) < 24)[None])
        samples = trace.replay()
        assert samples is not None
        chunks.append(samples[0].clone())
    made = torch.cat(chunks)[net.lookahead * net.settings.hop :][: 24 * net.settings.hop]
    assert float((made - spoken(net, mel_of(24, 3), [24])).abs().max()) < 1e-10
