"""The sizes of a HiFT vocoder. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

F0_LOOKAHEAD = 3
"""Mel frames after a frame that its fundamental frequency depends on, where the vocoder is causal."""


@dataclass(frozen=True)
class HiftSettings:
    """A HiFT vocoder: harmonic source, upsampling network, inverse short-time Fourier transform."""

    in_channels: int
    base_channels: int
    nb_harmonics: int
    """Harmonics in addition to the fundamental."""
    sampling_rate: int
    upsample_rates: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    n_fft: int
    hop_len: int
    resblock_kernel_sizes: tuple[int, ...]
    resblock_dilation_sizes: tuple[list[int], ...]
    source_resblock_kernel_sizes: tuple[int, ...]
    source_resblock_dilation_sizes: tuple[list[int], ...]
    conv_pre_look_right: int
    """Mel frames after a frame that the first convolution sees. A symmetric one sees as many before it."""
    f0_channels: int
    nsf_alpha: float = 0.1
    """Amplitude of the harmonics."""
    nsf_sigma: float = 0.003
    """Amplitude of the noise where there is voice."""
    nsf_voiced_threshold: float = 0.0
    """Hertz above which a frame is voiced."""
    lrelu_slope: float = 0.1
    audio_limit: float = 0.99

    @property
    def harmonics(self) -> int:
        return self.nb_harmonics + 1

    @property
    def columns(self) -> int:
        """Columns of the spectrum per mel frame."""
        return prod(self.upsample_rates)

    @property
    def hop(self) -> int:
        """Samples per mel frame."""
        return self.columns * self.hop_len

    @property
    def source_strides(self) -> tuple[int, ...]:
        """Columns of the spectrum per column of each stage."""
        rates = self.upsample_rates
        return tuple(prod(rates[i + 1 :]) for i in range(len(rates)))

    @property
    def source_kernels(self) -> tuple[int, ...]:
        """Kernel sizes of the convolutions that bring the source's spectrum to the rate of each stage."""
        return tuple(2 * stride if stride > 1 else 1 for stride in self.source_strides)

    @property
    def lookahead(self) -> int:
        """Mel frames after a frame that its samples depend on, where the vocoder is causal.

        The last samples of a frame overlap with the first column of the next frame, which looks ahead itself.
        """
        return 1 + max(self.conv_pre_look_right, F0_LOOKAHEAD)
