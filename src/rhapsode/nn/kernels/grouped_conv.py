"""A causal grouped convolution over channels-last rows, followed by Mish."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn import kernels


def grouped_mish_conv(x: Tensor, matrix: Tensor, bias: Tensor, groups: int) -> Tensor:
    """Maps `x [B, taps - 1 + T, C]` to `[B, T, N]`.

    `matrix [N, taps * C / groups]` has the newest tap last, and the inputs of a tap together.
    """
    outputs = len(matrix) // groups
    if kernels.on(x) and outputs % 16 == 0 and x.is_contiguous():
        from rhapsode.nn.kernels.gpu.conv import ConvWeights, conv

        weights = ConvWeights(matrix, bias, matrix.shape[1] * groups // x.shape[2], groups=groups)
        out = x.new_empty(len(x), x.shape[1] - weights.taps + 1, len(matrix))
        conv(x, weights, function="mish", out=out)
        return out
    return grouped_mish_conv_reference(x, matrix, bias, groups)


def grouped_mish_conv_reference(x: Tensor, matrix: Tensor, bias: Tensor, groups: int) -> Tensor:
    taps = matrix.shape[1] * groups // x.shape[2]
    windows = x.unfold(1, taps, 1).unflatten(2, (groups, -1))  # [B, T, groups, inputs, taps]
    batch, length = windows.shape[:2]
    rows = windows.permute(2, 0, 1, 4, 3).reshape(groups, batch * length, -1)
    made = torch.bmm(rows, matrix.unflatten(0, (groups, -1)).transpose(1, 2)).view(groups, batch, length, -1)
    return F.mish(made.permute(1, 2, 0, 3).flatten(2) + bias)
