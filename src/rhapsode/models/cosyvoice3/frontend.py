"""Three spectrograms of a reference, computed as upstream does: for the flow, speech tokenizer and speaker encoder."""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.models.cosyvoice3.config import CosyMelConfig
from rhapsode.nn.mel import MelConfig, filterbank, log_mel

RATE = 16_000
"""The sample rate of the input of the speech tokenizer and of the speaker encoder."""
LEAST_SAMPLES = RATE // 10
"""The shortest reference, in samples at this rate: all three spectrograms need some audio."""
WHISPER = MelConfig(sample_rate=RATE, n_fft=400, hop=160, bands=128, high_hz=RATE / 2)

_FRAME, _HOP, _FFT = 400, 160, 512  # of Kaldi's filter bank: 25 ms every 10 ms, padded to a power of two
_BANDS, _LOW_HZ = 80, 20.0
_PREEMPHASIS = 0.97


def prompt_mel(audio: Tensor, config: CosyMelConfig) -> Tensor:
    """Returns the mel spectrogram of a reference, `[N]` to [frames, bands], of the kind that the flow makes."""
    high = config.sampling_rate / 2 if config.fmax is None else config.fmax
    shape = MelConfig(config.sampling_rate, config.n_fft, config.hop_size, config.num_mels, config.fmin, high)
    return log_mel(audio[None], shape)[0]


def whisper_mel(audio: Tensor) -> Tensor:
    """Returns Whisper's log-mel spectrogram of 16 kHz samples, `[N]` to [bands, frames]."""
    window = torch.hann_window(WHISPER.n_fft)
    spectrum = torch.stft(audio, WHISPER.n_fft, WHISPER.hop, window=window, return_complex=True)[:, :-1]
    mel = torch.from_numpy(filterbank(WHISPER)) @ spectrum.abs().square()
    scores = mel.clamp(min=1e-10).log10()
    return (scores.clamp(min=float(scores.max()) - 8.0) + 4.0) / 4.0


def kaldi_fbank(audio: Tensor) -> Tensor:
    """Returns Kaldi's filter bank of 16 kHz samples without its mean over time, `[N]` to [frames, bands]."""
    frames = audio.unfold(0, _FRAME, _HOP)
    frames = frames - frames.mean(1, keepdim=True)
    before = F.pad(frames[:, None], (1, 0), mode="replicate")[:, 0, :-1]
    povey = torch.hann_window(_FRAME, periodic=False) ** 0.85
    frames = (frames - _PREEMPHASIS * before) * povey
    power = torch.fft.rfft(F.pad(frames, (0, _FFT - _FRAME))).abs().square()[:, :-1]
    bank = (power @ _kaldi_filters().T).clamp(min=torch.finfo(torch.float32).eps).log()
    return bank - bank.mean(0, keepdim=True)


@cache
def _kaldi_filters() -> Tensor:
    """Returns triangular filters on Kaldi's mel scale, [bands, bins]; the last bin is left out."""
    low, high = (1127.0 * math.log(1.0 + hz / 700.0) for hz in (_LOW_HZ, RATE / 2))
    step = (high - low) / (_BANDS + 1)
    band = torch.arange(_BANDS)[:, None]
    left, center, right = low + band * step, low + (band + 1) * step, low + (band + 2) * step
    points = 1127.0 * (1.0 + torch.arange(_FFT // 2) * (RATE / _FFT) / 700.0).log()
    return torch.minimum((points - left) / (center - left), (right - points) / (right - center)).clamp(min=0.0)
