"""CAM++: a network that finds the vector of a speaker in a filter bank. Convolutions over time, densely connected."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DILATIONS = (1, 2, 2)
"""Of the layers of each block."""
BLOCKS = len(DILATIONS)
SEGMENT = 100
"""Frames whose mean is part of the context of a frame."""
_HALVINGS = 3  # of the bands, in the two-dimensional head


@dataclass(frozen=True)
class CamPlusSizes:
    bands: int
    head: int
    """Channels of the head."""
    start: int
    """Channels before the first block."""
    growth: int
    """Channels that each layer of a block adds."""
    inner: int
    """Channels inside a layer."""
    layers: Sequence[int]
    """Of each block."""
    speaker: int
    """Numbers of a speaker vector."""


class HeadResidual(nn.Module):
    """Two convolutions over bands and time, added to the input; the first of a pair halves the bands."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, (stride, 1), padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        narrow = nn.Conv2d(channels, channels, 1, (stride, 1), bias=False)
        self.shortcut = nn.Sequential(narrow, nn.BatchNorm2d(channels)) if stride > 1 else nn.Sequential()

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(inner)) + self.shortcut(x))


class CamHead(nn.Module):
    """Convolutions over bands and time, which divide the number of bands by 8."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.layer1, self.layer2 = (
            nn.Sequential(HeadResidual(channels, 2), HeadResidual(channels, 1)) for _ in range(2)
        )
        self.conv2 = nn.Conv2d(channels, channels, 3, (2, 1), padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Maps `x [B, bands, T]` to `[B, channels * bands / 8, T]`."""
        x = F.relu(self.bn1(self.conv1(x[:, None])))
        return F.relu(self.bn2(self.conv2(self.layer2(self.layer1(x))))).flatten(1, 2)


class ActiveConv(nn.Module):
    """A convolution and a batch norm with ReLU, in this order or the other one."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, *, norm_first: bool) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.linear = nn.Conv1d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
        self.nonlinear = _active(inputs if norm_first else outputs)

    def forward(self, x: Tensor) -> Tensor:
        if self.norm_first:
            return self.linear(self.nonlinear(x))
        return self.nonlinear(self.linear(x))


class ContextGate(nn.Module):
    """A convolution whose outputs are weighted by the mean of all frames and of the segment around a frame."""

    def __init__(self, sizes: CamPlusSizes, dilation: int) -> None:
        super().__init__()
        inner, growth = sizes.inner, sizes.growth
        self.linear_local = nn.Conv1d(inner, growth, 3, padding=dilation, dilation=dilation, bias=False)
        self.linear1, self.linear2 = nn.Conv1d(inner, inner // 2, 1), nn.Conv1d(inner // 2, growth, 1)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[2]
        segments = F.avg_pool1d(x, SEGMENT, SEGMENT, ceil_mode=True).repeat_interleave(SEGMENT, dim=2)[..., :length]
        context = F.relu(self.linear1(x.mean(2, keepdim=True) + segments))
        return self.linear_local(x) * torch.sigmoid(self.linear2(context))


class DenseLayer(nn.Module):
    """A layer of a block: what it makes is appended to its input."""

    def __init__(self, inputs: int, sizes: CamPlusSizes, dilation: int) -> None:
        super().__init__()
        self.nonlinear1, self.nonlinear2 = _active(inputs), _active(sizes.inner)
        self.linear1 = nn.Conv1d(inputs, sizes.inner, 1, bias=False)
        self.cam_layer = ContextGate(sizes, dilation)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.nonlinear2(self.linear1(self.nonlinear1(x)))
        return torch.cat((x, self.cam_layer(inner)), dim=1)


class SpeakerVector(nn.Module):
    """The vector that mean and deviation of the last layer give."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Conv1d(inputs, outputs, 1, bias=False)
        self.nonlinear = nn.Sequential(OrderedDict(batchnorm=nn.BatchNorm1d(outputs, affine=False)))

    def forward(self, x: Tensor) -> Tensor:
        """Maps `x [B, C, T]`, of at least two frames, to `[B, outputs]`."""
        found = torch.cat((x.mean(2), x.std(2, unbiased=True)), dim=1)
        return self.nonlinear(self.linear(found[..., None]))[..., 0]


class CamPlus(nn.Module):
    """Maps a filter bank without its mean, `[B, T, bands]`, to speaker vectors `[B, speaker]`."""

    def __init__(self, sizes: CamPlusSizes) -> None:
        super().__init__()
        self.head = CamHead(sizes.head)
        channels = sizes.start
        wide = sizes.head * sizes.bands >> _HALVINGS
        steps: dict[str, nn.Module] = {"tdnn": ActiveConv(wide, channels, 5, 2, norm_first=False)}
        for i, (layers, dilation) in enumerate(zip(sizes.layers, DILATIONS, strict=True), start=1):
            widths = range(channels, channels + layers * sizes.growth, sizes.growth)
            block = {f"tdnnd{j}": DenseLayer(width, sizes, dilation) for j, width in enumerate(widths, start=1)}
            steps[f"block{i}"] = nn.Sequential(OrderedDict(block))
            channels += layers * sizes.growth
            steps[f"transit{i}"] = ActiveConv(channels, channels // 2, norm_first=True)
            channels //= 2
        steps["out_nonlinear"] = _active(channels)
        steps["dense"] = SpeakerVector(2 * channels, sizes.speaker)
        self.xvector = nn.Sequential(OrderedDict(steps))

    def forward(self, fbank: Tensor) -> Tensor:
        return self.xvector(self.head(fbank.transpose(1, 2)))


def _active(channels: int) -> nn.Sequential:
    return nn.Sequential(OrderedDict(batchnorm=nn.BatchNorm1d(channels), relu=nn.ReLU()))
