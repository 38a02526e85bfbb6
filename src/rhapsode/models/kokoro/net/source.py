"""The harmonic source: a pitch curve to sines of its harmonics and noise, mixed to one signal."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rhapsode.nn.philox import normal

LOUDNESS = 0.1
VOICED_NOISE = 0.003
LOWEST_HZ = 10.0
"""Below this pitch there is no voice: the source is noise."""


def seeded_noise(seeds: Tensor, steps: int, hop: int, harmonics: int) -> Tensor:
    """Returns normal noise `[B, steps * hop, harmonics]`.

    It depends on the seed of a row, the number of the sample and the harmonic: not on the batch, nor on the length.
    """
    counts = torch.arange(steps, device=seeds.device).expand(len(seeds), -1)
    drawn = normal(seeds[:, None].expand_as(counts).flatten(), counts.flatten(), 0, hop * harmonics)
    return drawn.view(len(seeds), steps * hop, harmonics)


class PitchSource(nn.Module):
    """One value of the pitch is held for `hop` samples; the phase goes on linearly between their middles."""

    def __init__(self, harmonics: int, hop: int, sample_rate: int) -> None:
        super().__init__()
        self.l_linear = nn.Linear(harmonics, 1)
        self.hop, self.sample_rate = hop, sample_rate

    @property
    def harmonics(self) -> int:
        return self.l_linear.in_features

    def forward(self, f0: Tensor, noise: Tensor) -> Tensor:
        """Maps pitches `[B, T]` and noise `[B, T * hop, harmonics]` to samples `[B, T * hop]`."""
        sines = (self._turns(f0) * (2 * math.pi)).to(noise.dtype).sin_() * LOUDNESS
        voiced = (f0 > LOWEST_HZ).to(noise.dtype).repeat_interleave(self.hop, dim=1)[..., None]
        loudness = VOICED_NOISE * voiced + LOUDNESS / 3 * (1 - voiced)
        return self.l_linear(sines * voiced + loudness * noise)[..., 0].tanh()

    def _turns(self, f0: Tensor) -> Tensor:
        """Returns the phase of each sample, in turns below 1: float64, as it is a sum over the whole utterance."""
        harmonics = torch.arange(1, self.harmonics + 1, dtype=torch.float64, device=f0.device)
        steps = f0.double()[..., None] * harmonics / self.sample_rate % 1  # turns per sample, [B, T, harmonics]
        middles = steps.cumsum(1) * self.hop
        places = (torch.arange(self.hop, dtype=torch.float64, device=f0.device) + 0.5) / self.hop - 0.5
        # Before the middle of a value, the phase comes from the value before; the first and the last are held outside.
        rising = torch.cat((torch.zeros_like(steps[:, :1]), steps[:, 1:]), dim=1) * self.hop
        later = torch.cat((steps[:, 1:], torch.zeros_like(steps[:, :1])), dim=1) * self.hop
        early = places[: self.hop // 2, None] * rising[:, :, None]
        late = places[self.hop // 2 :, None] * later[:, :, None]
        return (middles[:, :, None] + torch.cat((early, late), dim=2)).flatten(1, 2) % 1
