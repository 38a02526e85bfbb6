"""Checks audio before it is scored: most judges give even NaN a score."""

from __future__ import annotations

import numpy as np

from rhapsode.types import Clip, Samples

SILENCE = 1e-3
"""A clip with a lower peak is silent."""
CLIPPED_SHARE = 0.001
SPARE_S, MOST_S_PER_BYTE, LEAST_S_PER_BYTE = 2.0, 0.15, 0.025
"""Limits of the duration by the length of the normalised text, with numbers as words. English takes 0.05 to 0.08 s a
letter."""


class Unsound(Exception):
    """Audio that gets no score. The report counts it under `kind`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def check(clip: Clip, read: str) -> None:
    """Raises if a clip is empty, silent, not finite, or far too long or too short for the normalised text `read`."""
    if clip.samples.size == 0:
        raise Unsound("empty")
    if not np.isfinite(clip.samples).all():
        raise Unsound("nan")
    if float(np.abs(clip.samples).max()) < SILENCE:
        raise Unsound("silent")
    size = len(read.encode())
    if clip.duration_s > SPARE_S + MOST_S_PER_BYTE * size:
        raise Unsound("runaway")
    if clip.duration_s < LEAST_S_PER_BYTE * size:
        raise Unsound("cut short")


def is_clipped(samples: Samples) -> bool:
    """Whether more than one sample in a thousand is at full scale."""
    return bool(np.mean(np.abs(samples) >= 0.999) > CLIPPED_SHARE)


def at_16khz(clip: Clip) -> Samples:
    """Returns the clip as mono samples at 16 kHz, `[samples]`: what recognisers and judges expect."""
    from rhapsode.audio.resample import resample

    mono = clip.samples.mean(axis=0, keepdims=True, dtype=np.float32)
    samples: Samples = resample(mono, clip.sample_rate, 16_000)[0]
    return samples
