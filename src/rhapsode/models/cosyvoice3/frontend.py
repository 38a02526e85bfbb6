"""The spectrogram of a reference that the flow continues, and what all spectrograms of a reference need."""

from __future__ import annotations

from torch import Tensor

from rhapsode.models.cosyvoice3.config import CosyMelConfig
from rhapsode.nn.mel import MelConfig, log_mel

RATE = 16_000
"""The sample rate of the input of the speech tokenizer and of the speaker encoder."""
LEAST_SAMPLES = RATE // 10
"""The shortest reference, in samples at this rate: all three spectrograms need some audio."""


def prompt_mel(audio: Tensor, config: CosyMelConfig) -> Tensor:
    """Returns the mel spectrogram of a reference, `[N]` to [frames, bands], of the kind that the flow makes."""
    high = config.sampling_rate / 2 if config.fmax is None else config.fmax
    shape = MelConfig(config.sampling_rate, config.n_fft, config.hop_size, config.num_mels, config.fmin, high)
    return log_mel(audio[None], shape)[0]
