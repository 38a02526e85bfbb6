"""The voice encoder (GE2E): the vector of a voice, as the language model takes it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.chatterbox.shapes import TensorShapes
from rhapsode.nn.lstm import LSTMStack
from rhapsode.nn.mel import MelConfig
from rhapsode.nn.whisper_mel import power_mel

RATE = 16_000
VOICE_MEL = MelConfig(sample_rate=RATE, n_fft=400, hop=160, bands=40, high_hz=8_000)
WINDOW, STEP = 160, 77
"""Frames of a window, and from one window to the next."""
LEAST_COVERED = 0.8
"""A last window is read if speech covers this share of it; zeros follow."""


@dataclass(frozen=True)
class VoiceEncoderSizes:
    bands: int
    hidden: int
    layers: int
    speaker: int

    @classmethod
    def of(cls, found: TensorShapes) -> VoiceEncoderSizes:
        return cls(
            bands=found.size("lstm.weight_ih_l0", 1),
            hidden=found.size("lstm.weight_hh_l0", 1),
            layers=found.count("lstm.weight_ih_l"),
            speaker=found.size("proj.weight"),
        )


class VoiceEncoder(nn.Module):
    """Maps a mel spectrogram `[bands, T]` to the vector of a voice, `[speaker]`, of length 1."""

    def __init__(self, sizes: VoiceEncoderSizes) -> None:
        super().__init__()
        self.lstm = LSTMStack(sizes.bands, sizes.hidden, sizes.layers)
        self.proj = nn.Linear(sizes.hidden, sizes.speaker)

    def forward(self, mel: Tensor) -> Tensor:
        each = F.normalize(F.relu(self.proj(self.lstm(windows(mel.T)))), dim=1)
        return F.normalize(each.mean(0), dim=0)


def windows(frames: Tensor) -> Tensor:
    """Cuts frames `[T, bands]` into windows that overlap, `[n, WINDOW, bands]`."""
    count, left = divmod(max(len(frames) - WINDOW + STEP, 0), STEP)
    if not count or left + WINDOW - STEP >= LEAST_COVERED * WINDOW:
        count += 1
    length = WINDOW + STEP * (count - 1)
    padded = F.pad(frames, (0, 0, 0, max(0, length - len(frames))))[:length]
    return padded.unfold(0, WINDOW, STEP).transpose(1, 2)


def voice_mel(audio: Tensor) -> Tensor:
    """Returns the spectrogram that the voice encoder reads of 16 kHz samples, `[N]` to [bands, T]: no logarithm."""
    return power_mel(audio, VOICE_MEL)


IGNORE = ("similarity_weight", "similarity_bias")
"""Tensors that only training needs."""


def speech_span(audio: Tensor, below_db: float = 20.0, frame: int = 2048, hop: int = 512) -> slice:
    """Returns where the sound of `audio [N]` begins and ends: silence is `below_db` below the loudest frame."""
    frames = F.pad(audio, (frame // 2, frame // 2)).unfold(0, frame, hop)
    power = frames.square().mean(1).clamp(min=1e-10)
    heard = torch.nonzero(10 * (power / power.max()).log10() > -below_db).flatten()
    return slice(int(heard[0]) * hop, min(len(audio), (int(heard[-1]) + 1) * hop))
