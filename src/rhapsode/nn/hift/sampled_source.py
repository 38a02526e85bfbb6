"""The source of a symmetric HiFT vocoder, whose phase goes on from sample to sample, and its frequencies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.slots import Rows
from rhapsode.nn.harmonics import HarmonicMixer
from rhapsode.nn.hift.conv import AheadConv, states_of
from rhapsode.nn.hift.lags import F0_KERNEL, F0_LAYERS
from rhapsode.nn.hift.settings import HiftSettings
from rhapsode.nn.hift.source import PhaseState
from rhapsode.nn.philox import each_step, normal, uniform
from rhapsode.nn.streaming import ChainState, Streaming
from rhapsode.nn.symmetric import existing


class SourceDraws(Protocol):
    """What is random in a source. No frame's noise may depend on how many frames there are."""

    def starts(self, rows: Rows, harmonics: int) -> Tensor:
        """Returns the phase at which each harmonic starts, in radians, `[B, harmonics]`."""

    def noise(self, rows: Rows, frames: Tensor, hop: int) -> Tensor:
        """Returns standard normal noise for frames with these numbers `[B, n]`, `[B, n * hop]`."""


class CounterDraws:
    """Draws of the counter RNG, which depend on the request's seed and the number of the frame."""

    def starts(self, rows: Rows, harmonics: int) -> Tensor:
        turns = uniform(rows.seeds, torch.zeros_like(rows.seeds), 1, harmonics) - 0.5
        return torch.cat((torch.zeros_like(turns[:, :1]), turns[:, 1:] * (2 * math.pi)), dim=1)

    def noise(self, rows: Rows, frames: Tensor, hop: int) -> Tensor:
        return each_step(normal, rows.seeds, frames, hop).flatten(1)


class SymmetricF0Net(Streaming):
    """Predicts fundamental frequencies from mel frames, as many frames late as it looks ahead.

    In float64 they are the same however a stream is cut; in float32 rounding differs, which adds up in the phase.
    """

    def __init__(self, settings: HiftSettings) -> None:
        super().__init__()
        channels = settings.f0_channels
        inputs = (settings.in_channels, *[channels] * (F0_LAYERS - 1))
        self.condnet = nn.ModuleDict({str(2 * i): AheadConv(n, channels, F0_KERNEL) for i, n in enumerate(inputs)})
        self.classifier = nn.Linear(channels, 1)

    def state(self, slots: int) -> ChainState:
        return ChainState(states_of(self.condnet.values(), slots))

    def forward(self, mel: Tensor, slots: Tensor, state: ChainState, bounds: Iterator[Tensor]) -> Tensor:
        """Maps `mel [B, C, T]` to frequencies `[B, T]`, 0 for frames that do not exist."""
        x = mel.to(self.classifier.weight.dtype)
        for conv, tail in zip(self.condnet.values(), state.states, strict=True):
            x = F.elu(conv(existing(x, next(bounds)), slots, tail, 0))
        f0 = self.classifier(x.transpose(1, 2)).abs().transpose(1, 2)
        return existing(f0, next(bounds)).squeeze(1)


class SampledSource(HarmonicMixer):
    """A frequency is held for the `hop` samples of a frame; the phase is a sum over all samples before."""

    def __init__(self, settings: HiftSettings) -> None:
        super().__init__(settings.harmonics, settings.nsf_alpha, settings.nsf_sigma)
        self.settings = settings

    def state(self, slots: int) -> PhaseState:
        return PhaseState(slots, self.harmonics, self.l_linear.weight.device)

    def forward(self, f0: Tensor, noise: Tensor, starts: Tensor, slots: Tensor, state: PhaseState) -> Tensor:
        """Maps frequencies `[B, T]`, normal noise `[B, T * hop]` and starts `[B, harmonics]` to samples
        `[B, T * hop]`."""
        hop, dtype = self.settings.hop, f0.dtype
        harmonics = torch.arange(1, self.harmonics + 1, dtype=dtype, device=f0.device)
        steps = (f0[..., None] * harmonics / self.settings.sampling_rate).double()  # turns per sample
        ends = torch.cat((state.turns[slots][:, None], steps * hop), dim=1).cumsum(1)  # [B, T + 1, harmonics]
        state.turns[slots] = ends[:, -1]
        samples = torch.arange(1, hop + 1, dtype=torch.float64, device=f0.device)[:, None]
        turns = (ends[:, :-1, None] + samples * steps[:, :, None]).flatten(1, 2)  # [B, T * hop, harmonics]
        # The sum is rounded before whole turns are dropped, as upstream's is: late phases depend on it.
        sines = (turns.to(dtype) % 1 * (2 * math.pi) + starts.to(dtype)[:, None]).sin() * self.amplitude
        voiced = (f0 > self.settings.nsf_voiced_threshold).to(dtype).repeat_interleave(hop, dim=1)
        return self.mix(sines, voiced, self.mixed_at_once(noise.to(dtype)))
