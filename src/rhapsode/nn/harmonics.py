"""The mixture of a harmonic source: sines of the harmonics where there is voice, noise where there is none."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def noise_size(voiced: Tensor, amplitude: float, voiced_noise: float) -> Tensor:
    """Returns the size of the noise: `voiced_noise` where `voiced` is 1, a third of the sines' where it is 0."""
    return voiced_noise * voiced + amplitude / 3 * (1 - voiced)


class HarmonicMixer(nn.Module):
    """Mixes harmonics of a size, each with independent normal noise, to one signal."""

    def __init__(self, harmonics: int, amplitude: float, voiced_noise: float) -> None:
        super().__init__()
        self.l_linear = nn.Linear(harmonics, 1)
        self.amplitude, self.voiced_noise = amplitude, voiced_noise

    @property
    def harmonics(self) -> int:
        return self.l_linear.in_features

    def mixed(self, noise: Tensor) -> Tensor:
        """Returns the noise of all harmonics, `[B, n, harmonics]`, as the mixture has it, `[B, n]`."""
        return noise @ self.l_linear.weight[0]

    def mixed_at_once(self, noise: Tensor) -> Tensor:
        """Returns what `mixed` makes of independent noise for each harmonic, from one `[B, n]`: a weighted sum of
        normal numbers is a normal number."""
        return noise * torch.linalg.vector_norm(self.l_linear.weight)

    def mix(self, sines: Tensor, voiced: Tensor, noise: Tensor) -> Tensor:
        """Returns the samples `[B, n]` of sines `[B, n, harmonics]`, which count where `voiced [B, n]` is 1, and of
        mixed noise `[B, n]`."""
        loudness = noise_size(voiced, self.amplitude, self.voiced_noise)
        return (self.l_linear(sines * voiced[..., None])[..., 0] + loudness * noise).tanh()
