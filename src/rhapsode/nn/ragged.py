"""Padded batches of items of different lengths: what is beyond the end of an item never changes a result."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """The lengths of the items of a padded batch, and which positions they fill."""

    lengths: Tensor  # [B], int64
    size: int
    """Positions of each row, with padding."""
    mask: Tensor | None = None  # [B, size], bool; None: every item fills its row

    @classmethod
    def of(cls, lengths: Tensor, size: int, *, is_full: bool = False) -> Ragged:
        """`is_full`: every item fills its row, so that nothing has to be masked."""
        if is_full:
            return cls(lengths, size)
        place = torch.arange(size, device=lengths.device)
        return cls(lengths, size, place < lengths[:, None])

    def scaled(self, rate: int, more: int = 0) -> Ragged:
        """Returns the same batch with `rate` positions for each one of this, and `more` at the end."""
        return Ragged.of(self.lengths * rate + more, self.size * rate + more, is_full=self.mask is None)

    def cut(self, x: Tensor) -> Tensor:
        """Returns `x [B, C, size]` with zeros beyond the end of each item, as a convolution must find them there."""
        return x if self.mask is None else x * self.mask[:, None].to(x.dtype)

    def reversed_places(self) -> Tensor:
        """Returns the place that each position has in an item read backwards, `[B, size]`; padding stays in place."""
        place = torch.arange(self.size, device=self.lengths.device)
        return torch.where(place < self.lengths[:, None], self.lengths[:, None] - 1 - place, place)
