"""Whisper's log-mel spectrogram, which speech tokenizers read."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.nn.mel import MelConfig, filterbank

RATE = 16_000
HOP = 160
WHISPER = MelConfig(sample_rate=RATE, n_fft=400, hop=HOP, bands=128, high_hz=RATE / 2)


def whisper_mel(audio: Tensor) -> Tensor:
    """Returns Whisper's log-mel spectrogram of 16 kHz samples, `[N]` to [bands, N // HOP]."""
    mel = power_mel(audio, WHISPER)[:, :-1]
    scores = mel.clamp(min=1e-10).log10()
    return (scores.clamp(min=float(scores.max()) - 8.0) + 4.0) / 4.0


def power_mel(audio: Tensor, config: MelConfig) -> Tensor:
    """Returns a mel spectrogram of powers, whose frames are centred, `[N]` to [bands, N // hop + 1]."""
    window = torch.hann_window(config.n_fft)
    spectrum = torch.stft(audio, config.n_fft, config.hop, window=window, return_complex=True)
    return torch.from_numpy(filterbank(config)) @ spectrum.abs().square()
