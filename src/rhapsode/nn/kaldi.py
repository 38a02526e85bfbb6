"""Kaldi's filter bank, which speaker networks read."""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

RATE = 16_000
BANDS = 80

_FRAME, _HOP, _FFT = 400, 160, 512  # 25 ms every 10 ms, padded to a power of two
_LOW_HZ = 20.0
_PREEMPHASIS = 0.97


def kaldi_fbank(audio: Tensor) -> Tensor:
    """Returns Kaldi's filter bank of 16 kHz samples without its mean over time, `[N]` to [frames, BANDS]."""
    frames = audio.unfold(0, _FRAME, _HOP)
    frames = frames - frames.mean(1, keepdim=True)
    before = F.pad(frames[:, None], (1, 0), mode="replicate")[:, 0, :-1]
    povey = torch.hann_window(_FRAME, periodic=False) ** 0.85
    frames = (frames - _PREEMPHASIS * before) * povey
    power = torch.fft.rfft(F.pad(frames, (0, _FFT - _FRAME))).abs().square()[:, :-1]
    bank = (power @ _filters().T).clamp(min=torch.finfo(torch.float32).eps).log()
    return bank - bank.mean(0, keepdim=True)


@cache
def _filters() -> Tensor:
    """Returns triangular filters on Kaldi's mel scale, [bands, bins]; the last bin is left out."""
    low, high = (1127.0 * math.log(1.0 + hz / 700.0) for hz in (_LOW_HZ, RATE / 2))
    step = (high - low) / (BANDS + 1)
    band = torch.arange(BANDS)[:, None]
    left, center, right = low + band * step, low + (band + 1) * step, low + (band + 2) * step
    points = 1127.0 * (1.0 + torch.arange(_FFT // 2) * (RATE / _FFT) / 700.0).log()
    return torch.minimum((points - left) / (center - left), (right - points) / (right - center)).clamp(min=0.0)
