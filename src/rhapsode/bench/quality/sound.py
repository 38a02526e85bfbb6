"""What must hold before anyone is asked how speech sounds: most judges give NaN a score."""

from __future__ import annotations

import numpy as np

from rhapsode.types import Clip, Samples

SILENCE = 1e-3
"""A peak below this is silence."""
CLIPPED_SHARE = 0.001


class Unsound(Exception):
    """Audio that gets no score; `kind` is what the report counts it as."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def check(clip: Clip) -> None:
    if clip.samples.size == 0:
        raise Unsound("empty")
    if not np.isfinite(clip.samples).all():
        raise Unsound("nan")
    if float(np.abs(clip.samples).max()) < SILENCE:
        raise Unsound("silent")


def is_clipped(samples: Samples) -> bool:
    """More than one sample in a thousand at full scale."""
    return bool(np.mean(np.abs(samples) >= 0.999) > CLIPPED_SHARE)


def at_16khz(clip: Clip) -> Samples:
    """Mono, as recognisers and judges want it: `[samples]`."""
    from rhapsode.audio.resample import resample

    mono = clip.samples.mean(axis=0, keepdims=True, dtype=np.float32)
    samples: Samples = resample(mono, clip.sample_rate, 16_000)[0]
    return samples
