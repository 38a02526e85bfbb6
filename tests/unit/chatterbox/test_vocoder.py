"""The vocoder: equal to upstream in one pass, and equal to one pass however its frames are cut."""

import math
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import fuzzed
from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.device.reach import Window
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.errors import CheckpointError
from rhapsode.models.chatterbox.vocoder import S3Vocoder, fade_in
from rhapsode.models.chatterbox.vocoder_parts import s3_vocoder_net
from rhapsode.nn.hift.sampled_source import SourceDraws
from rhapsode.nn.hift.symmetric import SymmetricHift
from unit.chatterbox.s3gen import GOLDEN, TINY, context, golden, noise, tensors

CASES = [("original", "original", 1), ("turbo", "turbo", 4), ("long", "original", 16)]
"""By the name of the golden data: whose tensors, and how much `wav` and `source` were thinned out."""
HOP = 480


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.inference_mode():
        yield


@cache
def net_of(variant: str, dtype: str = "float64") -> SymmetricHift:
    return s3_vocoder_net(context(dtype), lambda: tensors(variant))


class GoldenDraws:
    """What the reference implementation was given in place of random numbers."""

    def __init__(self, net: SymmetricHift, frames: int) -> None:
        weight = net.m_source.l_linear.weight[0]
        every = torch.from_numpy(noise((len(weight), frames * HOP), 3)).to(weight)
        self._noise = weight @ every / weight.norm()
        self._starts = torch.from_numpy(noise((1, len(weight)), 5)) * (2 * math.pi / 12**0.5)
        self._starts[:, 0] = 0

    def starts(self, rows: Rows, harmonics: int) -> torch.Tensor:
        return self._starts

    def noise(self, rows: Rows, frames: torch.Tensor, hop: int) -> torch.Tensor:
        place = (frames[..., None] * hop + torch.arange(hop)).flatten(1)
        return self._noise[place.clamp(0, len(self._noise) - 1)]


class Speech:
    """Requests of a vocoder, in slots 1, 2 and so on, fed as the engine feeds it."""

    def __init__(self, net: SymmetricHift, count: int = 1, draws: SourceDraws | None = None) -> None:
        self.worker, self.count = S3Vocoder(net, draws), count
        self.state, self.dtype = self.worker.state(count + 1), net.conv_post.weight.dtype
        self.table = SlotTable(count + 1, 0, torch.device("cpu"))
        self.table.join([SlotRow(slot=slot, seed=7) for slot in range(1, count + 1)])

    def spoken(self, mels: list[torch.Tensor], cuts: list[int]) -> list[torch.Tensor]:
        """The samples of each `mel [frames, C]`, in chunks of these numbers of frames."""
        reach, made, start = self.worker.reach, [], 0
        most = max(map(len, mels))
        cuts = [*cuts, *[most] * (sum(cuts) < most)]
        given = torch.stack([F.pad(mel, (0, 0, 0, sum(cuts) + reach.lookahead - len(mel)), value=9.0) for mel in mels])
        lengths = torch.tensor([len(mel) for mel in mels])[:, None]
        for due in cuts:
            stop = start + due + (0 if made else reach.lookahead)
            present = torch.arange(start, stop) < lengths
            window = Window(given[:, start:stop].to(self.dtype), due, reach, present)
            rows = Rows(torch.arange(1, self.count + 1), self.table)
            made.append(self.worker.decode(window, rows, self.state)[:, 0])
            start = stop
        whole = torch.cat(made, dim=1)
        return [samples[: len(mel) * HOP] for samples, mel in zip(whole, mels, strict=True)]


def spoken(net: SymmetricHift, mel: torch.Tensor, cuts: list[int], draws: SourceDraws | None = None) -> torch.Tensor:
    return Speech(net, 1, draws).spoken([mel], cuts)[0]


def mel_of(frames: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(-4.0, 2.0, (frames, 80)))


def largest(one: torch.Tensor, other: np.ndarray | torch.Tensor) -> float:
    other = torch.as_tensor(other)
    assert one.shape == other.shape
    return float((one - other).abs().max())


@pytest.mark.parametrize(("case", "variant", "thin"), CASES)
def test_one_pass_equals_upstream(case, variant, thin):
    found, net = golden(f"vocoder-{case}"), net_of(variant, "float32")
    mel, f0 = (torch.from_numpy(found[name]) for name in ("mel", "f0"))
    frames, late = len(f0), net.lags.f0
    held, made = F.pad(f0, (late, net.lookahead - late))[None].double(), {}

    # The rest is compared with upstream's frequencies: small errors of theirs add up in the phase.
    def replace_f0(module, inputs, output):
        made["f0"] = output[0, late : late + frames]
        return held

    def keep_source(module, inputs, output):
        made["source"] = output[0, late * HOP : (late + frames) * HOP]

    hooks = [
        net.f0_predictor.register_forward_hook(replace_f0),
        net.m_source.register_forward_hook(keep_source),
    ]
    wav = spoken(net, mel.T, [frames], GoldenDraws(net, frames))
    for hook in hooks:
        hook.remove()
    faded = torch.from_numpy(found["wav"]).to(wav) * gains(frames).to(wav)[::thin]
    errors = [largest(made["f0"], found["f0"]), largest(made["source"][::thin], found["source"])]
    errors.append(largest(wav[::thin], faded))
    assert all(error < limit for error, limit in zip(errors, (1e-4, 1e-7, 5e-5), strict=True)), errors


def gains(frames: int) -> torch.Tensor:
    fade = fade_in(24_000)
    return F.pad(fade, (0, max(0, frames * HOP - len(fade))), value=1.0)[: frames * HOP]


def test_a_segment_begins_with_silence_and_fades_in():
    made, fade = spoken(net_of("turbo"), mel_of(6), [6]), fade_in(24_000)
    assert not made[:480].any()
    assert made[481:].abs().min() > 0
    assert (fade[480], fade[-2], fade[-1], len(fade)) == (0, 1, 1, 961)
    assert float(fade[480 + 240]) == pytest.approx(0.5, abs=0.01)
    assert bool((fade.diff() >= 0).all())


@pytest.mark.parametrize("variant", TINY)
@pytest.mark.parametrize("cuts", [[1] * 45, [1, 2, 4, 8, 16, 14], [44, 1], [1, 44], [20, 3, 20, 2]], ids=str)
def test_a_stream_equals_one_pass(variant, cuts):
    net, mel = net_of(variant), mel_of(45)
    assert largest(spoken(net, mel, cuts), spoken(net, mel, [45])) < 1e-8


@fuzzed(12)
@given(frames=st.integers(1, 60), seed=st.integers(0, 99), data=st.data())
def test_a_stream_equals_one_pass_for_all_lengths(frames, seed, data):
    cuts, left = [], frames
    while left:
        cuts.append(data.draw(st.integers(1, left)))
        left -= cuts[-1]
    net, mel = net_of("turbo"), mel_of(frames, seed)
    assert largest(spoken(net, mel, cuts), spoken(net, mel, [frames])) < 1e-8


def test_neighbours_of_other_lengths_change_nothing():
    net, mels = net_of("original"), [mel_of(n, n) for n in (30, 4, 17)]
    together = Speech(net, 3).spoken(mels, [3, 8, 5, 14])
    for mel, made in zip(mels, together, strict=True):
        assert largest(made, spoken(net, mel, [len(mel)])) < 1e-8


def test_a_slot_whose_state_is_cleared_begins_anew():
    speech, mel = Speech(net_of("turbo")), mel_of(5)
    first = speech.spoken([mel_of(9, 3)], [9])[0]
    speech.state.clear(torch.tensor([1]))
    again = speech.spoken([mel], [5])[0]
    assert largest(again, spoken(net_of("turbo"), mel, [5])) < 1e-12
    assert first.abs().max() > 0


@pytest.mark.parametrize("name", ["mel2wav.conv_pre.bias", "mel2wav.f0_predictor.condnet.4.bias"])
def test_a_tensor_that_is_missing_is_an_error(name):
    found = {each: tensors("original").read(each) for each in tensors("original") if each != name}
    with pytest.raises(CheckpointError, match=f"lacks the tensor '{name.removeprefix('mel2wav.')}'"):
        s3_vocoder_net(context(), lambda: TensorsInMemory(GOLDEN / "x", found))


def test_a_file_without_a_vocoder_is_an_error():
    with pytest.raises(CheckpointError, match="holds no tensors of a vocoder"):
        s3_vocoder_net(context(), lambda: TensorsInMemory(GOLDEN / "x", {}))
