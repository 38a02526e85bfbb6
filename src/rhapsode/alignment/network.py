"""The network of the English acoustic model: log-mel bands, then causal convolutions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn.mel import MelConfig, filterbank

RATE = 16_000
WINDOW = 400
HOP = 160
"""Samples of a window of the spectrum, and from one window to the next: 25 and 10 ms."""
FRAME = 2 * HOP
"""Samples of a frame of letters: two windows, 20 ms."""
OVERLAP = WINDOW - HOP
"""Samples before a frame that its first window contains."""
_FFT = 512
_FLOOR = 1e-3


@dataclass(frozen=True)
class AcousticConfig:
    """Sizes of the network. `symbols[0]` is the blank."""

    symbols: tuple[str, ...]
    language: str
    bands: int = 64
    width: int = 192
    hidden: int = 576
    blocks: int = 8
    kernel: int = 11
    look_ahead: int = 10
    """Frames that the network hears after a frame before it emits the letter of that frame."""
    late: int = 0
    """How many frames after its sound begins it emits a letter, in running speech: its training labels were late."""


class AcousticLinear(nn.Linear):
    """A linear layer with one product per stream, so that its shape and its rounding are the same in any batch."""

    turned: Tensor | None = None

    def prepare(self) -> None:
        """Copies the weight as `[in, out]` in memory, for inference: this makes products of a few rows faster."""
        self.turned = self.weight.detach().T.contiguous()

    def forward(self, x: Tensor) -> Tensor:
        if self.turned is None:
            return super().forward(x)
        if x.ndim == 2:
            return torch.addmm(self.bias, x, self.turned)
        return torch.stack([torch.addmm(self.bias, rows, self.turned) for rows in x])


class LetterBlock(nn.Module):
    """A causal convolution over time per channel, then two layers over the channels, added to the input."""

    def __init__(self, config: AcousticConfig) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.empty(config.kernel, config.width))
        nn.init.normal_(self.taps, std=config.kernel**-0.5)
        self.norm = nn.LayerNorm(config.width)
        self.up = AcousticLinear(config.width, config.hidden)
        self.down = AcousticLinear(config.hidden, config.width)

    def forward(self, x: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
        """Continues `x [B, T, width]` after `tail [B, kernel - 1, width]`; returns the output and the next tail."""
        length = x.shape[-2]
        joined = torch.cat([tail, x], dim=-2)
        mixed = self.norm(self._convolved(joined, length))
        return x + self.down(F.relu(self.up(mixed))), joined[..., length:, :]

    def _convolved(self, joined: Tensor, length: int) -> Tensor:
        """Returns the convolution. A short block is one product; in training, one product per tap saves memory."""
        if not self.training:
            return (joined.unfold(-2, len(self.taps), 1) * self.taps.T).sum(-1)
        mixed = joined[:, :length] * self.taps[0]
        for index in range(1, len(self.taps)):
            mixed = torch.addcmul(mixed, joined[:, index : index + length], self.taps[index])
        return mixed


class AcousticNetwork(nn.Module):
    """Computes log-probabilities of letters, `look_ahead` frames late, so that every layer is causal.

    Its state is explicit: `tails [blocks, B, kernel - 1, width]`, the last inputs of every block, zeros at first. For
    one stream `B` may be left out everywhere.
    """

    window: Tensor
    bank: Tensor

    def __init__(self, config: AcousticConfig) -> None:
        super().__init__()
        self.config = config
        mel = MelConfig(RATE, _FFT, HOP, config.bands, low_hz=60.0, high_hz=7600.0)
        self.register_buffer("window", torch.hann_window(WINDOW, device="cpu"), persistent=False)
        self.register_buffer("bank", torch.from_numpy(filterbank(mel)).T.contiguous(), persistent=False)
        self.enter = AcousticLinear(2 * config.bands, config.width)
        self.blocks = nn.ModuleList(LetterBlock(config) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(config.width)
        self.leave = AcousticLinear(config.width, len(config.symbols))

    def fresh(self, batch: int) -> Tensor:
        """Returns the tails of streams that have heard nothing."""
        config = self.config
        return torch.zeros(config.blocks, batch, config.kernel - 1, config.width, device=self.bank.device)

    def features(self, samples: Tensor) -> Tensor:
        """Converts `samples [B, OVERLAP + T * FRAME]` to `[B, T, 2 * bands]`, about -1 to 1."""
        windows = samples.unfold(-1, WINDOW, HOP) * self.window  # [B, 2 T, WINDOW]
        magnitude = torch.view_as_real(torch.fft.rfft(windows, n=_FFT)).square().sum(-1).sqrt()
        bands = (magnitude @ self.bank + _FLOOR).log()  # -7 in silence, up to 1
        stacked: Tensor = ((bands + 3) / 3).unflatten(1, (-1, 2)).flatten(2)
        return stacked

    def forward(self, x: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `[B, T, symbols]` for `features [B, T, 2 * bands]`: row `t` is about frame `t - look_ahead`."""
        x, after = self.enter(x), []
        for block, tail in zip(self.blocks, tails.unbind(), strict=True):
            x, last = block(x, tail)
            after.append(last)
        return self.leave(self.norm(x)).float().log_softmax(-1), torch.stack(after)
