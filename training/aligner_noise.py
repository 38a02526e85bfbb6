"""Makes speech sound like other rooms, devices and lines: all on the device, a batch at a time."""

from __future__ import annotations

import torch
from torch import Tensor

RATE = 16_000


def disturbed(audio: Tensor) -> Tensor:
    """Returns `audio [B, N]` after a room, a frequency response, noise and a gain, each drawn per row."""
    batch, length = audio.shape
    size = length + RATE // 2
    spectrum = torch.fft.rfft(audio, n=size)
    hertz = torch.linspace(0, RATE / 2, spectrum.shape[-1], device=audio.device)
    spectrum = spectrum * _response(batch, hertz) * torch.fft.rfft(_room(batch, audio.device), n=size)
    speech = torch.fft.irfft(spectrum, n=size)[:, :length]
    level = speech.square().mean(1, keepdim=True).sqrt()
    noise = _noise(batch, length, hertz, size)
    loudness = level * 10 ** (-_uniform(batch, 5, 45, audio.device) / 20) * _chance(batch, 0.7, audio.device)
    gain = 10 ** (_uniform(batch, -18, 8, audio.device) / 20)
    return ((speech + noise * loudness) * gain).clamp(-1, 1)


def _uniform(batch: int, low: float, high: float, device: torch.device) -> Tensor:
    return torch.rand(batch, 1, device=device) * (high - low) + low


def _chance(batch: int, share: float, device: torch.device) -> Tensor:
    return (torch.rand(batch, 1, device=device) < share).float()


def _response(batch: int, hertz: Tensor) -> Tensor:
    """A tilt for half of the rows; a telephone's band or a low-pass for a third. [B, bins]"""
    device = hertz.device
    octaves = (hertz.clamp(min=50) / 1000).log2()
    tilt = 10 ** (_uniform(batch, -4, 4, device) * _chance(batch, 0.5, device) * octaves / 20)
    high = torch.where(_chance(batch, 0.35, device) > 0, _uniform(batch, 3200, 7500, device), 9000.0)
    low = torch.where(_chance(batch, 0.15, device) > 0, _uniform(batch, 150, 350, device), 20.0)
    return tilt / (1 + (hertz / high) ** 12).sqrt() / (1 + (low / hertz.clamp(min=1)) ** 8).sqrt()


def _room(batch: int, device: torch.device) -> Tensor:
    """The direct sound, and for a third of the rows a decaying tail: [B, 0.4 s]."""
    when = torch.arange(int(0.4 * RATE), device=device) / RATE
    tail = torch.randn(batch, len(when), device=device) * torch.exp(-6.9 * when / _uniform(batch, 0.1, 0.5, device))
    tail = tail / tail.square().sum(1, keepdim=True).sqrt() * 10 ** (_uniform(batch, -20, 0, device) / 20)
    tail = tail * (when > 0.002) * _chance(batch, 0.33, device)
    tail[:, 0] += 1
    return tail


def _noise(batch: int, length: int, hertz: Tensor, size: int) -> Tensor:
    """Noise of level one, white to brown. [B, N]"""
    slope = _uniform(batch, 0, 1, hertz.device)
    shape = (hertz.clamp(min=60) / 1000) ** -slope
    noise = torch.fft.irfft(torch.fft.rfft(torch.randn(batch, size, device=hertz.device)) * shape, n=size)[:, :length]
    return noise / noise.square().mean(1, keepdim=True).sqrt()
