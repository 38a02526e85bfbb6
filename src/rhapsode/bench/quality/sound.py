"""What must hold before anyone is asked how speech sounds: most judges give NaN a score."""

from __future__ import annotations

import numpy as np

from rhapsode.types import Clip, Samples

SILENCE = 1e-3
"""A peak below this is silence."""
CLIPPED_SHARE = 0.001
SPARE_S, MOST_S_PER_BYTE, LEAST_S_PER_BYTE = 2.0, 0.15, 0.025
"""Of the text as it is read, numbers as words. English takes 0.05 to 0.08 s a letter, whoever speaks."""


class Unsound(Exception):
    """Audio that gets no score; `kind` is what the report counts it as."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def check(clip: Clip, read: str) -> None:
    """`read` is what should be heard: nobody takes twice as long for it, or a third of the time."""
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
    """More than one sample in a thousand at full scale."""
    return bool(np.mean(np.abs(samples) >= 0.999) > CLIPPED_SHARE)


def at_16khz(clip: Clip) -> Samples:
    """Mono, as recognisers and judges want it: `[samples]`."""
    from rhapsode.audio.resample import resample

    mono = clip.samples.mean(axis=0, keepdims=True, dtype=np.float32)
    samples: Samples = resample(mono, clip.sample_rate, 16_000)[0]
    return samples
