"""Short-time Fourier transforms as matrix products: of samples, and back to samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def from_polar(x: Tensor, most: float | None = None) -> Tensor:
    """Maps `[B, bins * 2, T]` of magnitudes' logarithms and angles' arcsines to columns of a spectrum.

    Magnitudes are at most `most`.
    """
    loud, phase = x.chunk(2, dim=1)
    loud, phase = loud.exp().clamp(max=most) if most is not None else loud.exp(), phase.sin()
    return torch.cat((loud * phase.cos(), loud * phase.sin()), dim=1)


def reflected(place: Tensor, end: Tensor) -> Tensor:
    """Returns the places in a signal of `end` samples that mirror those after its end; others stay."""
    return torch.where(place < end, place, 2 * end - 2 - place).clamp(min=0)


class Spectrum(nn.Module):
    """Transforms under a Hann window of `n_fft` samples, an even number of hops.

    Columns have `n_fft / 2 + 1` real, then as many imaginary parts.
    """

    forward_basis: Tensor  # [n_fft, bins * 2]
    inverse_basis: Tensor  # [bins * 2, n_fft]
    squares: Tensor  # [overlap, hop]: of the window

    def __init__(self, n_fft: int, hop: int) -> None:
        super().__init__()
        if n_fft % (2 * hop):
            raise ValueError(f"a window of {n_fft} samples is no even number of hops of {hop}")
        self.n_fft, self.hop, self.overlap = n_fft, hop, n_fft // hop
        times = torch.arange(n_fft, dtype=torch.float64, device="cpu")
        window = 0.5 - 0.5 * torch.cos(2 * math.pi * times / n_fft)
        angles = 2 * math.pi / n_fft * times[:, None] * times[: n_fft // 2 + 1]  # [n_fft, bins]
        shares = torch.full((n_fft // 2 + 1,), 2.0 / n_fft, dtype=torch.float64, device="cpu")
        shares[[0, -1]] = 1.0 / n_fft
        waves = torch.cat((angles.cos(), -angles.sin()), dim=1)
        self.register_buffer("forward_basis", window[:, None] * waves, persistent=False)
        self.register_buffer("inverse_basis", (window[:, None] * waves * shares.repeat(2)).T, persistent=False)
        self.register_buffer("squares", window.square().view(self.overlap, hop), persistent=False)

    @property
    def before(self) -> int:
        """Columns before the first one of a signal that `synthesise` must be given."""
        return self.overlap // 2 - 1

    def analyse(self, samples: Tensor) -> Tensor:
        """Maps samples `[B, n_fft + hop * (T - 1)]` to columns `[B, bins * 2, T]`."""
        return (samples.unfold(1, self.n_fft, self.hop) @ self.forward_basis.to(samples.dtype)).transpose(1, 2)

    def synthesise(self, columns: Tensor, exists: Tensor) -> Tensor:
        """Maps columns `[B, bins * 2, T + overlap - 1]` to samples `[B, T * hop]`.

        A column is centred on the first of its `hop` samples, so `before` columns come first, and `overlap / 2` last.
        Columns that do not exist, by `exists [B, T + overlap - 1]`, add nothing to the samples, nor to the sum of
        windows that divides them.
        """
        exists = exists.to(columns.dtype)
        waves = columns.transpose(1, 2) @ self.inverse_basis.to(columns.dtype) * exists[..., None]
        parts = waves.unflatten(2, (self.overlap, -1))  # [B, T + overlap - 1, overlap, hop]
        count = columns.shape[2] - self.overlap + 1
        squares = exists[..., None, None] * self.squares.to(columns.dtype)
        summed, divisor = (self._overlapped(part, count) for part in (parts, squares))
        return (summed / divisor).flatten(1)

    def _overlapped(self, parts: Tensor, count: int) -> Tensor:
        """Sums the parts `[B, T + overlap - 1, overlap, hop]` of windows that fall on the same samples."""
        last = self.overlap - 1
        return torch.stack([parts[:, last - i : last - i + count, i] for i in range(self.overlap)]).sum(0)
