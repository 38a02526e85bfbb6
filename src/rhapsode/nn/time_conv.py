"""A convolution over time that is fast on a CPU, where it wants the channels of a position beside each other."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn.derived import Derived


def channels_last(x: Tensor) -> Tensor:
    """Returns `x [B, C, T]` with the channels of a position beside each other in memory, as `TimeConv1d` wants them."""
    return x.transpose(1, 2).contiguous().transpose(1, 2) if _is_for_cpu(x) else x


class TimeConv1d(nn.Conv1d, Derived):
    """On a CPU the output has its channels beside each other, whatever the input has. Elsewhere it is a `Conv1d`."""

    def derive(self) -> None:
        self.weight.data = channels_last(self.weight.data)

    def forward(self, x: Tensor) -> Tensor:
        if not _is_for_cpu(x):
            return super().forward(x)
        assert not isinstance(self.padding, str)
        given = (1, *self.stride), (0, *self.padding), (1, *self.dilation), self.groups
        return F.conv2d(x[:, :, None], self.weight[:, :, None], self.bias, *given)[:, :, 0]


def _is_for_cpu(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype == torch.float32
