"""Discriminators between the codec's speech and the teacher's: over waveform periods, and over spectra."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PERIODS = (2, 3, 5, 7, 11)
WINDOWS = (2048, 1024, 512)
_SLOPE = 0.1


class Verdict(NamedTuple):
    score: Tensor
    features: list[Tensor]


class _Judge(nn.Module):
    """A stack of 2-D convolutions; the output of every layer is used for feature matching."""

    def __init__(self, layers: list[nn.Conv2d], last: nn.Conv2d) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.last = last

    def judge(self, plane: Tensor) -> Verdict:
        plane = plane.to(memory_format=torch.channels_last)  # as tensor cores want it
        features = []
        for layer in self.layers:
            plane = F.leaky_relu(layer(plane), _SLOPE)
            features.append(plane)
        return Verdict(self.last(plane), features)


class ByPeriod(_Judge):
    def __init__(self, period: int) -> None:
        widths = (1, 32, 64, 128, 256)
        layers = [nn.Conv2d(a, b, (5, 1), (3, 1), (2, 0)) for a, b in pairwise(widths)]
        layers.append(nn.Conv2d(widths[-1], widths[-1], (5, 1), 1, (2, 0)))
        super().__init__(layers, nn.Conv2d(widths[-1], 1, (3, 1), 1, (1, 0)))
        self.period = period

    def forward(self, audio: Tensor) -> Verdict:
        audio = F.pad(audio, (0, -audio.shape[-1] % self.period), "reflect")
        return self.judge(audio.unflatten(-1, (-1, self.period)))


class BySpectrum(_Judge):
    def __init__(self, window: int, width: int = 32) -> None:
        layers = [nn.Conv2d(2, width, (3, 9), 1, (1, 4))]
        layers += [nn.Conv2d(width, width, (3, 9), (1, 2), (1, 4)) for _ in range(3)]
        layers.append(nn.Conv2d(width, width, 3, 1, 1))
        super().__init__(layers, nn.Conv2d(width, 1, 3, 1, 1))
        self.register_buffer("window", torch.hann_window(window), persistent=False)

    def forward(self, audio: Tensor) -> Verdict:
        size = len(self.window)
        with torch.autocast(audio.device.type, enabled=False):
            spectrum = torch.stft(audio[:, 0].float(), size, size // 4, window=self.window, return_complex=True)
            plane = torch.view_as_real(spectrum).permute(0, 3, 2, 1) * (96 / size**0.5 * 0.1)
        return self.judge(plane)


class Discriminators(nn.ModuleList):
    def __init__(self) -> None:
        super().__init__([*map(ByPeriod, PERIODS), *map(BySpectrum, WINDOWS)])

    def forward(self, audio: Tensor) -> list[Verdict]:
        """`audio [B, 1, N]`."""
        return [judge(audio) for judge in self]


def told_apart(real: list[Verdict], made: list[Verdict]) -> Tensor:
    """The loss of the discriminators."""
    losses = [
        (1 - a.score.float()).square().mean() + b.score.float().square().mean() for a, b in zip(real, made, strict=True)
    ]
    return torch.stack(losses).mean()


def convinced(made: list[Verdict]) -> Tensor:
    """The adversarial loss of the codec."""
    return torch.stack([(1 - verdict.score.float()).square().mean() for verdict in made]).mean()


def alike(real: list[Verdict], made: list[Verdict]) -> Tensor:
    """The feature-matching loss of the codec, relative to the scale of each layer."""
    pairs = [
        (theirs.detach().float(), ours.float())
        for a, b in zip(real, made, strict=True)
        for theirs, ours in zip(a.features, b.features, strict=True)
    ]
    apart = [(theirs - ours).abs().mean() / (theirs.abs().mean() + 1e-4) for theirs, ours in pairs]
    return torch.stack(apart).mean()
