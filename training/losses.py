"""How far two waveforms are apart to the ear: spectra and mel spectra at several resolutions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

RATE = 24_000
SCALES = ((2048, 160), (1024, 100), (512, 60), (256, 32), (128, 16))
"""Window and mel bands; the step is a quarter of the window."""
FLOOR = 1e-4


class Distance(NamedTuple):
    total: Tensor
    mel: Tensor
    """The part of the 1,024-sample mel spectrum, which figures elsewhere are given in."""


class SpectralDistance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for window, bands in SCALES:
            self.register_buffer(f"bands_{window}", mel_bands(window, bands))
            self.register_buffer(f"window_{window}", torch.hann_window(window))

    def forward(self, heard: Tensor, meant: Tensor) -> Distance:
        """Both `[B, N]`."""
        total, noted = heard.new_zeros(()), heard.new_zeros(())
        for window, _ in SCALES:
            ours, theirs = self._spectrum(heard, window), self._spectrum(meant, window)
            bands = getattr(self, f"bands_{window}")
            mel = _apart(bands @ ours, bands @ theirs)
            total = total + mel + 0.5 * _apart(ours, theirs)
            if window == 1024:
                noted = mel
        return Distance(total / len(SCALES), noted)

    def _spectrum(self, audio: Tensor, window: int) -> Tensor:
        shape = getattr(self, f"window_{window}")
        return torch.stft(audio, window, window // 4, window=shape, return_complex=True).abs()


def _apart(a: Tensor, b: Tensor) -> Tensor:
    return (a.clamp(min=FLOOR).log() - b.clamp(min=FLOOR).log()).abs().mean()


def mel_bands(window: int, bands: int) -> Tensor:
    """Triangles, `[bands, window / 2 + 1]`."""
    top = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700))
    edges = 700 * (10 ** (torch.linspace(0, 1, bands + 2) * top / 2595) - 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    frequency = torch.linspace(0, RATE / 2, window // 2 + 1)
    rising, falling = (frequency - low) / (middle - low), (high - frequency) / (high - middle)
    return torch.minimum(rising, falling).clamp(min=0)
