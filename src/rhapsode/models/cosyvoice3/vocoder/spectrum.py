"""Short-time Fourier transforms as matrix products: of the source, and back to samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rhapsode.models.cosyvoice3.vocoder.settings import HiftSettings


class Spectrum(nn.Module):
    """Transforms under a Hann window of four hops. Columns have `n_fft / 2 + 1` real, then as many imaginary parts."""

    forward_basis: Tensor  # [n_fft, bins * 2]
    inverse_basis: Tensor  # [bins * 2, n_fft]
    squares: Tensor  # [4, hop]: of the window

    def __init__(self, settings: HiftSettings) -> None:
        super().__init__()
        size, self.hop = settings.n_fft, settings.hop_len
        times = torch.arange(size, dtype=torch.float64, device="cpu")
        window = 0.5 - 0.5 * torch.cos(2 * math.pi * times / size)
        angles = 2 * math.pi / size * times[:, None] * times[: size // 2 + 1]  # [n_fft, bins]
        shares = torch.full((size // 2 + 1,), 2.0 / size, dtype=torch.float64, device="cpu")
        shares[[0, -1]] = 1.0 / size
        waves = torch.cat((angles.cos(), -angles.sin()), dim=1)
        self.register_buffer("forward_basis", window[:, None] * waves, persistent=False)
        self.register_buffer("inverse_basis", (window[:, None] * waves * shares.repeat(2)).T, persistent=False)
        self.register_buffer("squares", window.square().view(4, -1), persistent=False)

    def analyse(self, samples: Tensor) -> Tensor:
        """Maps samples `[B, n_fft + hop * (T - 1)]` to columns `[B, bins * 2, T]`."""
        size = self.forward_basis.shape[0]
        return (samples.unfold(1, size, self.hop) @ self.forward_basis.to(samples.dtype)).transpose(1, 2)

    def synthesise(self, columns: Tensor, exists: Tensor) -> Tensor:
        """Maps columns `[B, bins * 2, T + 3]` to samples `[B, T * hop]`: one column before and two after overlap them.

        Columns that do not exist, by `exists [B, T + 3]`, add nothing to the samples, nor to the sum of windows that
        divides them.
        """
        exists = exists.to(columns.dtype)
        waves = columns.transpose(1, 2) @ self.inverse_basis.to(columns.dtype) * exists[..., None]
        quarters = waves.unflatten(2, (4, -1))  # [B, T + 3, 4, hop]
        count = columns.shape[2] - 3
        squares = exists[..., None, None] * self.squares.to(columns.dtype)
        summed, divisor = (_overlapped(part, count) for part in (quarters, squares))
        return (summed / divisor).flatten(1)


def _overlapped(quarters: Tensor, count: int) -> Tensor:
    """Sums the quarters `[B, T + 3, 4, hop]` of windows that fall on the same samples: [B, T, hop]."""
    return torch.stack([quarters[:, 3 - i : 3 - i + count, i] for i in range(4)]).sum(0)
