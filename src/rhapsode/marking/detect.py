"""Finds the watermark in audio, and reads its payload.

The detector sees the echoes in the cepstrum, averaged over all frames. It tries every speed the audio may have been
resampled to, decodes the chips at those where their repeats agree best, and compares them with the chips of the decoded
payload.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from rhapsode.audio.resample import mono
from rhapsode.marking.cepstrum import LAG_S, average, cepstra, frames_in
from rhapsode.marking.code import agreement, decode, encode
from rhapsode.marking.pattern import CHIPS, lags_s, unscrambled
from rhapsode.marking.payload import DEPLOYMENT_BITS, PAYLOAD_BITS, Payload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rhapsode.types import Clip

RATE = 16_000
STRETCHES = np.linspace(0.88, 1.12, 241)
"""Lengths that are tried, relative to the original: speeds of 0.9 to 1.13, which also change the pitch."""
MAX_CHANCE = 1e-6
"""The highest allowed probability of a false positive: audio without a watermark that is taken for marked."""
SEGMENT_S = 10.0
"""Longer audio is also searched in segments of this length, of which only one need be marked."""

_LIMIT = 1.3  # of one chip, in standard deviations: steady tones have a few very large ones
_MOST_DECODED = 16  # the most stretches whose chips are decoded
_CLOCKS_DIFFER = timedelta(days=1)


@dataclass(frozen=True)
class Detection:
    """What was found in a clip."""

    found: bool
    confidence: float
    """How sure it is that there is a watermark: one minus the probability to see this without one."""
    score: float
    """The correlation with the decoded payload, in standard deviations."""
    speed: float = 1.0
    """The speed of the audio relative to the original, if its pitch was changed with it, judging by the echoes."""
    payload: Payload | None = None
    """None if too little of the payload could be read."""


def detect(clip: Clip, now: datetime | None = None) -> Detection:
    """Looks for a watermark. `now` limits the times that a payload may have."""
    latest = Payload.at("", (now or datetime.now(UTC)) + _CLOCKS_DIFFER).hour
    frames = cepstra(mono(clip, RATE), RATE)
    segments = list(_segments(frames))
    best = Detection(False, 0.0, 0.0)
    for segment in segments:
        found = _decoded(average(segment), len(segments), latest)
        best = max(best, found, key=lambda detection: (detection.confidence, detection.score))
    return best


def _segments(frames: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """Yields all frames, then overlapping segments of them where there are many."""
    if not len(frames):
        return
    yield frames
    length = frames_in(SEGMENT_S)
    if len(frames) > length * 3 // 2:
        for start in range(0, len(frames) - length // 2, length // 2):
            yield frames[start : start + length]


def _decoded(cepstrum: NDArray[np.float64], trials: int, latest_hour: int) -> Detection:
    chips = unscrambled(_chips_at(cepstrum))
    likely = np.argsort(-agreement(chips))[:_MOST_DECODED]
    chips = chips[likely]
    bits = decode(chips)
    scores = (chips * encode(bits)).sum(axis=1) / np.sqrt((chips**2).sum(axis=1) + 1e-12)
    best = int(scores.argmax())
    score, payload = float(scores[best]), Payload.from_bits(bits[best])
    if payload is not None and payload.hour > latest_hour:
        payload = None
    words = 2.0**PAYLOAD_BITS if payload is None else 2.0**DEPLOYMENT_BITS * (latest_hour + 1)
    chance = trials * len(STRETCHES) * words * _tail(score)
    found = chance < MAX_CHANCE
    speed = round(1 / float(STRETCHES[likely[best]]), 3)
    return Detection(found, max(0.0, 1.0 - chance), round(score, 2), speed, payload if found else None)


def _chips_at(cepstrum: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the noisy chips `[stretches, CHIPS]`: the cepstrum at the lags that the echoes have after each."""
    places = np.outer(STRETCHES, lags_s()) / LAG_S
    left = places.astype(np.int64)
    weight = places - left
    values = cepstrum[left] * (1 - weight) + cepstrum[left + 1] * weight
    spread = np.sqrt((values**2).mean(axis=1, keepdims=True)) + 1e-12
    chips: NDArray[np.float64] = np.clip(values / spread, -_LIMIT, _LIMIT)
    return chips


def _tail(score: float) -> float:
    """Returns the probability that the correlation of random chips with one word is at least so large."""
    cosine = min(score / math.sqrt(CHIPS), 1.0)
    return 0.5 * (1 - cosine * cosine) ** ((CHIPS - 1) / 2) if cosine > 0 else 1.0
