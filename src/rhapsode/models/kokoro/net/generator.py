"""The generator: decoded frames and a harmonic source to samples, by way of a spectrum."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.kokoro.config import KokoroConfig
from rhapsode.models.kokoro.net.blocks import SnakeBlock
from rhapsode.models.kokoro.net.source import PitchSource
from rhapsode.nn.ragged import Ragged
from rhapsode.nn.spectrum import Spectrum, from_polar, reflected
from rhapsode.nn.time_conv import channels_last

SLOPE, LAST_SLOPE = 0.1, 0.01
NOISE_DILATIONS = (1, 3, 5)
POST_KERNEL = 7


class Polar(NamedTuple):
    """A spectrum, `[B, bins, columns]` each."""

    magnitude: Tensor
    angle: Tensor


class SpectrumGenerator(nn.Module):
    def __init__(self, config: KokoroConfig, sample_rate: int) -> None:
        super().__init__()
        self.config = settings = config.istftnet
        style, rates = config.style_dim, settings.upsample_rates
        channels = [settings.upsample_initial_channel >> i for i in range(len(rates) + 1)]
        bins = settings.gen_istft_n_fft + 2
        self.m_source = PitchSource(config.sizes.harmonics, settings.hop, sample_rate)
        self.spectrum = Spectrum(settings.gen_istft_n_fft, settings.gen_istft_hop_size)
        self.ups = nn.ModuleList()
        self.noise_convs, self.noise_res, self.resblocks = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        shapes = list(zip(settings.resblock_kernel_sizes, settings.resblock_dilation_sizes, strict=True))
        for i, (rate, kernel) in enumerate(zip(rates, settings.upsample_kernel_sizes, strict=True)):
            size = channels[i + 1]
            self.ups.append(nn.ConvTranspose1d(channels[i], size, kernel, rate, padding=(kernel - rate) // 2))
            self.noise_convs.append(_noise_conv(bins, size, math.prod(rates[i + 1 :])))
            self.noise_res.append(SnakeBlock(size, config.sizes.noise_kernels[i], NOISE_DILATIONS, style))
            self.resblocks.extend(SnakeBlock(size, *shape, style) for shape in shapes)
        self.conv_post = nn.Conv1d(channels[-1], bins, POST_KERNEL, padding=POST_KERNEL // 2)

    def source_spectrum(self, f0: Tensor, noise: Tensor, ragged: Ragged) -> Polar:
        """Maps pitches `[B, T]` to the spectrum of the source, a column for each hop and one more.

        Both ends of each item are reflected. What symmetry makes real has the angle 0 or pi, whatever rounding says:
        the lowest bin, the highest, and the first column.
        """
        samples = self.m_source(ragged.cut(f0[:, None])[:, 0], noise)
        half, size = self.spectrum.n_fft // 2, samples.shape[1]
        place = torch.arange(-half, size + half, device=samples.device).abs()
        end = ragged.lengths[:, None] * self.config.hop
        columns = self.spectrum.analyse(samples.gather(1, reflected(place, end).clamp(max=size - 1)))
        real, imaginary = columns.chunk(2, dim=1)
        imaginary = imaginary.clone()
        imaginary[:, 0], imaginary[:, -1], imaginary[..., 0] = 0, 0, 0
        return Polar(torch.hypot(real, imaginary), torch.atan2(imaginary, real))

    def forward(self, x: Tensor, style: Tensor, source: Polar, ragged: Ragged) -> Tensor:
        """Maps frames `[B, C, T]` and the source's spectrum to samples `[B, T * hop]`, zeros beyond the end."""
        columns = ragged.scaled(self.columns, 1)
        har = columns.cut(torch.cat(source, dim=1).to(x.dtype))
        at, last, blocks = ragged, len(self.ups) - 1, len(self.resblocks) // len(self.ups)
        for i, (up, conv, noise_block) in enumerate(zip(self.ups, self.noise_convs, self.noise_res, strict=True)):
            x = up(at.cut(F.leaky_relu(x, SLOPE)))
            at = columns if i == last else at.scaled(self.config.upsample_rates[i])
            if i == last:  # a column more, reflected
                x = torch.cat((x[..., 1:2], x), dim=2)
            x = noise_block(channels_last(conv(har)), style, at).add_(x)
            first, *others = (block(x, style, at) for block in self.resblocks[i * blocks : (i + 1) * blocks])
            x = first
            for made in others:
                x = x.add_(made)
            x = x.mul_(1 / blocks)
        spectrum = self.conv_post(columns.cut(F.leaky_relu(x, LAST_SLOPE)))
        return self._samples(spectrum, ragged)

    @property
    def columns(self) -> int:
        """Columns of the spectrum for each frame of the input."""
        return math.prod(self.config.upsample_rates)

    def _samples(self, spectrum: Tensor, ragged: Ragged) -> Tensor:
        """Inverts the transform; what it needs is computed in float32 at least."""
        wide = spectrum.float() if spectrum.dtype in (torch.float16, torch.bfloat16) else spectrum
        overlap = (self.spectrum.before, self.spectrum.overlap - 2 - self.spectrum.before)
        columns = F.pad(from_polar(wide), overlap)
        place = torch.arange(columns.shape[2], device=wide.device) - overlap[0]
        exists = (place >= 0) & (place <= ragged.lengths[:, None] * self.columns)
        samples = self.spectrum.synthesise(columns.masked_fill(~exists[:, None], 0), exists)
        end = ragged.lengths[:, None] * self.config.hop
        return samples.masked_fill(torch.arange(samples.shape[1], device=wide.device) >= end, 0)


def _noise_conv(bins: int, channels: int, rate: int) -> nn.Conv1d:
    """Brings the source's spectrum to the rate of a stage; `rate` is what later stages upsample by."""
    if rate == 1:
        return nn.Conv1d(bins, channels, 1)
    return nn.Conv1d(bins, channels, 2 * rate, rate, padding=(rate + 1) // 2)
