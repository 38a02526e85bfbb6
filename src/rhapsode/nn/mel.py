"""Log-mel spectrograms as vocoders use them: Slaney's mel scale, filters of unit area, magnitudes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

_LINEAR_HZ_PER_MEL = 200 / 3
_LOG_FROM_HZ = 1000.0  # linear below, logarithmic above
_LOG_FROM_MEL = _LOG_FROM_HZ / _LINEAR_HZ_PER_MEL
_LOG_STEP = math.log(6.4) / 27


@dataclass(frozen=True)
class MelConfig:
    """The parameters of a spectrogram. The defaults are upstream's: constants in its code, not in the checkpoint."""

    sample_rate: int = 24_000
    n_fft: int = 1024
    hop: int = 256
    bands: int = 128
    low_hz: float = 0.0
    high_hz: float = 12_000.0

    @property
    def margin(self) -> int:
        """Samples of reflect padding at each end."""
        return (self.n_fft - self.hop) // 2


def log_mel(audio: Tensor, config: MelConfig) -> Tensor:
    """Converts `audio [B, N]` to `[B, N // hop, bands]`, in float32."""
    padded = F.pad(audio.float()[:, None], (config.margin, config.margin), mode="reflect")[:, 0]
    window = torch.hann_window(config.n_fft, device=audio.device)
    frames = padded.unfold(-1, config.n_fft, config.hop) * window  # [B, T, n_fft]
    spectrum = torch.view_as_real(torch.fft.rfft(frames))
    magnitude = (spectrum.square().sum(-1) + 1e-9).sqrt()  # [B, T, n_fft / 2 + 1]
    bank = torch.from_numpy(filterbank(config)).to(audio.device)
    return (magnitude @ bank.T).clamp(min=1e-5).log()


@cache
def filterbank(config: MelConfig) -> NDArray[np.float32]:
    """Returns triangular filters between neighbouring mel points, [bands, n_fft / 2 + 1]."""
    bins_hz = np.linspace(0, config.sample_rate / 2, config.n_fft // 2 + 1)
    mels = np.linspace(_mel(config.low_hz), _mel(config.high_hz), config.bands + 2)
    points_hz = np.array([_hz(mel) for mel in mels])
    widths_hz = np.diff(points_hz)
    distance_hz = points_hz[:, None] - bins_hz  # [bands + 2, bins]
    rising = -distance_hz[:-2] / widths_hz[:-1, None]
    falling = distance_hz[2:] / widths_hz[1:, None]
    area = 2 / (points_hz[2:] - points_hz[:-2])
    bank: NDArray[np.float32] = (np.maximum(0, np.minimum(rising, falling)) * area[:, None]).astype(np.float32)
    return bank


def _mel(hz: float) -> float:
    if hz < _LOG_FROM_HZ:
        return hz / _LINEAR_HZ_PER_MEL
    return _LOG_FROM_MEL + math.log(hz / _LOG_FROM_HZ) / _LOG_STEP


def _hz(mel: float) -> float:
    if mel < _LOG_FROM_MEL:
        return mel * _LINEAR_HZ_PER_MEL
    return _LOG_FROM_HZ * math.exp(_LOG_STEP * (mel - _LOG_FROM_MEL))
