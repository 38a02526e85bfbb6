"""Convolutions over recordings of different lengths: each row is computed as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

Lengths = Sequence[int]


def rows_within(lengths: Lengths, longest: int, device: torch.device) -> Tensor | None:
    """Returns a mask of the positions that belong to each row, `[B, longest]`; None if all of them do."""
    if min(lengths) == longest:
        return None
    return torch.arange(longest, device=device) < torch.tensor(lengths, device=device)[:, None]


def within(x: Tensor, lengths: Lengths) -> Tensor:
    """Sets the positions after the end of each row of `x [B, C, T]` to zero, like the padding of a convolution."""
    inside = rows_within(lengths, x.shape[2], x.device)
    return x if inside is None else torch.where(inside[:, None], x, 0)


class RaggedConv(nn.Conv1d):
    """A convolution over rows `[B, C, T]` of different lengths; the result after the end of a row is arbitrary."""

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:  # type: ignore[override]
        return super().forward(within(x, lengths))

    def lengths(self, lengths: Lengths) -> list[int]:
        """Returns the lengths of the rows of the result."""
        padding = self.padding[0]
        assert isinstance(padding, int)
        span = self.dilation[0] * (self.kernel_size[0] - 1) + 1
        return [(length + 2 * padding - span) // self.stride[0] + 1 for length in lengths]
