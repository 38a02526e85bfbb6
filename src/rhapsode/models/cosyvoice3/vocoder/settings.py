"""The sizes of the vocoder, from the `hift` section of a checkpoint's YAML file. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError

WHERE = "the section 'hift'"
F0_LOOKAHEAD = 3
"""Mel frames after a frame that its fundamental frequency depends on."""


@dataclass(frozen=True)
class HiftSettings:
    """A causal HiFT: harmonic source, upsampling network, inverse short-time Fourier transform."""

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
    f0_channels: int
    nsf_alpha: float = 0.1
    """Amplitude of the harmonics."""
    nsf_sigma: float = 0.003
    """Amplitude of the noise where there is voice."""
    nsf_voiced_threshold: float = 0.0
    """Hertz above which a frame is voiced."""
    lrelu_slope: float = 0.1
    audio_limit: float = 0.99

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> HiftSettings:
        """Reads the section `hift`, whose YAML references are resolved already."""
        transform, f0 = (section(values, name, WHERE) for name in ("istft_params", "f0_predictor"))
        found = {**values, **transform, "f0_channels": f0.get("cond_channels")}
        return parse(cls, found, WHERE)

    def __post_init__(self) -> None:
        stages = len(self.upsample_rates)
        if stages != len(self.upsample_kernel_sizes) or stages != len(self.source_resblock_kernel_sizes):
            raise CheckpointError(f"{WHERE} must have a kernel size and a source block for each of its upsample rates.")
        if self.hop_len * 4 != self.n_fft:
            raise CheckpointError(f"'n_fft' of {WHERE} must be four times 'hop_len'.")

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
        """Mel frames after a frame that its samples depend on.

        The last samples of a frame overlap with the first column of the next frame, which looks ahead itself.
        """
        return 1 + max(self.conv_pre_look_right, F0_LOOKAHEAD)
