"""The harmonic source: fundamental frequencies of mel frames, and the sines and noise they make."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.nn.harmonics import noise_size
from rhapsode.nn.hift.conv import AheadConv, states_of
from rhapsode.nn.hift.settings import F0_LOOKAHEAD, HiftSettings
from rhapsode.nn.philox import each_step, uniform
from rhapsode.nn.streaming import ChainState, Streaming, convolve

SourceNoise = Callable[[Rows, int, int], Tensor]
"""Returns noise from 0 to 1 for the next `n` mel frames, `[B, n, values]`. No frame's noise may depend on `n`."""


def counter_noise(rows: Rows, frames: int, values: int) -> Tensor:
    """Returns noise of the counter RNG: it depends on the request's seed and the position of the frame."""
    steps = rows.steps[:, None] + torch.arange(frames, device=rows.slots.device)
    return each_step(uniform, rows.seeds, steps, values)


class F0Net(Streaming):
    """Predicts fundamental frequencies from mel frames. It runs in float64: its errors add up in the phase."""

    def __init__(self, settings: HiftSettings) -> None:
        super().__init__()
        channels = settings.f0_channels
        first = nn.Conv1d(settings.in_channels, channels, F0_LOOKAHEAD + 1)
        later = {str(i): AheadConv(channels, channels, 3) for i in (2, 4, 6, 8)}
        self.condnet = nn.ModuleDict({"0": first, **later})
        self.classifier = nn.Linear(channels, 1)

    def state(self, slots: int) -> ChainState:
        return ChainState(states_of(self.condnet.values(), slots))

    def forward(self, mel: Tensor, slots: Tensor, state: ChainState, ahead: int) -> Tensor:
        """Maps `[B, C, T + F0_LOOKAHEAD]` to frequencies `[B, T]`."""
        first, *later = self.condnet.values()
        assert isinstance(first, nn.Conv1d)
        x = F.elu(convolve(mel.to(self.classifier.weight.dtype), first.weight, first.bias))
        for conv, tail in zip(later, state.states, strict=True):
            x = F.elu(conv(x, slots, tail, ahead))
        return self.classifier(x.transpose(1, 2)).squeeze(-1).abs()


class PhaseState(State):
    """The phase of each harmonic, in turns. The sum is in float64 and does not depend on the chunks."""

    def __init__(self, slots: int, harmonics: int, device: torch.device) -> None:
        self.turns = buffer(slots, harmonics, dtype=torch.float64, device=device)


class HarmonicSource(Streaming):
    """Sines of the harmonics where there is voice, noise where there is none, mixed to one channel."""

    def __init__(self, settings: HiftSettings) -> None:
        super().__init__()
        self.l_linear = nn.Linear(settings.harmonics, 1)
        self.settings = settings

    def state(self, slots: int) -> PhaseState:
        return PhaseState(slots, self.settings.harmonics, self.l_linear.weight.device)

    def forward(self, f0: Tensor, noise: Tensor, slots: Tensor, state: PhaseState, ahead: int) -> Tensor:
        """Maps frequencies `[B, T]` in float32 and noise `[B, T, hop * harmonics]` to samples `[B, T * hop]`."""
        settings, dtype = self.settings, self.l_linear.weight.dtype
        harmonics = torch.arange(1, settings.harmonics + 1, dtype=f0.dtype, device=f0.device)
        steps = f0[..., None] * harmonics / settings.sampling_rate % 1  # turns per sample, [B, T, harmonics]
        turns = torch.cat((state.turns[slots][:, None], steps.double()), dim=1).cumsum(1)
        state.turns[slots] = turns[:, turns.shape[1] - 1 - ahead]
        # The order of the factors is upstream's: large phases in float32 depend on it. A frame holds one value.
        sines = (turns[:, 1:].to(f0.dtype) * 2 * math.pi * settings.hop).sin() * settings.nsf_alpha
        voiced = (f0 > settings.nsf_voiced_threshold).to(f0.dtype)[..., None]
        loudness = noise_size(voiced, settings.nsf_alpha, settings.nsf_sigma)
        noise = noise.unflatten(2, (settings.hop, -1)) * loudness[..., None]
        mixed = self.l_linear(((sines * voiced)[:, :, None] + noise).to(dtype))  # [B, T, hop, 1]
        return mixed.flatten(1).tanh()
