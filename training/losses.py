"""Reconstruction losses: spectra at several resolutions, and phase at low frequencies.

Below two kilohertz phase matters. The teacher's pulses are aligned with the frames (`pulses.py`), so the codes
determine it. Higher up the signal is noise, whose phase is inaudible.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

RATE = 24_000
SCALES = ((2048, 160), (1024, 100), (512, 60), (256, 32), (128, 16))
"""Window and mel bands; the step is a quarter of the window."""
FLOOR = 1e-4
PHASED = 1024
"""Window in which phases are compared."""
FULL, NONE = 1000.0, 3000.0
"""In Hz: up to the first phases count in full, from the second on not at all."""


class Distance(NamedTuple):
    total: Tensor
    mel: Tensor
    """The part of the 1,024-sample mel spectrum, which figures elsewhere are given in."""
    phase: Tensor
    """How much of the low voice is missed, 0 to about 1.4."""


class SpectralDistance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for window, bands in SCALES:
            self.register_buffer(f"bands_{window}", mel_bands(window, bands))
            self.register_buffer(f"window_{window}", torch.hann_window(window))
        frequency = torch.linspace(0, RATE / 2, PHASED // 2 + 1)
        self.register_buffer("low", ((NONE - frequency) / (NONE - FULL)).clamp(0, 1)[frequency < NONE, None])

    def forward(self, heard: Tensor, meant: Tensor) -> Distance:
        """Both `[B, N]`."""
        total, noted, phase = (heard.new_zeros(()) for _ in range(3))
        for window, _ in SCALES:
            ours, theirs = self._spectrum(heard, window), self._spectrum(meant, window)
            if window == PHASED:
                phase = self._missed(ours, theirs)
            ours, theirs = ours.abs(), theirs.abs()
            bands = getattr(self, f"bands_{window}")
            mel = _apart(bands @ ours, bands @ theirs)
            total = total + mel + 0.5 * _apart(ours, theirs)
            if window == 1024:
                noted = mel
        return Distance(total / len(SCALES), noted, phase)

    def _missed(self, ours: Tensor, theirs: Tensor) -> Tensor:
        ours, theirs = (part[:, : len(self.low)] * self.low for part in (ours, theirs))
        return (ours - theirs).abs().mean() / theirs.abs().mean()

    def _spectrum(self, audio: Tensor, window: int) -> Tensor:
        shape = getattr(self, f"window_{window}")
        return torch.stft(audio, window, window // 4, window=shape, return_complex=True)


def _apart(a: Tensor, b: Tensor) -> Tensor:
    return (a.clamp(min=FLOOR).log() - b.clamp(min=FLOOR).log()).abs().mean()


def mel_bands(window: int, bands: int) -> Tensor:
    """Returns triangular mel filters, `[bands, window / 2 + 1]`."""
    top = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700))
    edges = 700 * (10 ** (torch.linspace(0, 1, bands + 2) * top / 2595) - 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    frequency = torch.linspace(0, RATE / 2, window // 2 + 1)
    rising, falling = (frequency - low) / (middle - low), (high - frequency) / (high - middle)
    return torch.minimum(rising, falling).clamp(min=0)
