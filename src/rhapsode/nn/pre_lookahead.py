"""A pre-lookahead: each token learns of the few that follow it, by two convolutions whose result is added to it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

LOOKBEHIND = 2
"""Tokens before a token that its result depends on."""


class PreLookahead(nn.Module):
    """Adds to each token the result of two convolutions: one over the tokens after it, then one over those before."""

    def __init__(self, inputs: int, channels: int, lookahead: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, channels, lookahead + 1)
        self.conv2 = nn.Conv1d(channels, inputs, LOOKBEHIND + 1)

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        """Maps `x [B, behind + n + ahead, C]` to `[B, n, C]`; tokens that are not `known` are zero in every layer."""
        x = x * known[..., None]
        ahead = self.conv1.kernel_size[0] - 1
        hidden = F.leaky_relu(self.conv1(x.transpose(1, 2)))
        hidden = hidden * known[:, None, : known.shape[1] - ahead]
        return self.conv2(hidden).transpose(1, 2) + x[:, LOOKBEHIND : x.shape[1] - ahead]
