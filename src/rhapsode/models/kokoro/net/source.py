"""The harmonic source: a pitch curve to sines of its harmonics and noise, mixed to one signal."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rhapsode.nn.harmonics import HarmonicMixer
from rhapsode.nn.philox import each_step, normal

LOUDNESS = 0.1
VOICED_NOISE = 0.003
LOWEST_HZ = 10.0
"""Below this pitch there is no voice: the source is noise."""


def seeded_noise(seeds: Tensor, steps: int, hop: int) -> Tensor:
    """Returns normal noise `[B, steps * hop]`.

    It depends on the seed of a row and the number of the sample: not on the batch, nor on the length.
    """
    counts = torch.arange(steps, device=seeds.device).expand(len(seeds), -1)
    return each_step(normal, seeds, counts, hop).flatten(1)


class PitchSource(HarmonicMixer):
    """One value of the pitch is held for `hop` samples; the phase goes on linearly between their middles."""

    def __init__(self, harmonics: int, hop: int, sample_rate: int) -> None:
        super().__init__(harmonics, LOUDNESS, VOICED_NOISE)
        self.hop, self.sample_rate = hop, sample_rate

    def forward(self, f0: Tensor, noise: Tensor) -> Tensor:
        """Maps pitches `[B, T]` and mixed noise `[B, T * hop]` to samples `[B, T * hop]`."""
        sines = (self._turns(f0) * (2 * math.pi)).to(noise.dtype).sin_() * LOUDNESS
        voiced = (f0 > LOWEST_HZ).to(noise.dtype).repeat_interleave(self.hop, dim=1)
        return self.mix(sines, voiced, noise)

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
