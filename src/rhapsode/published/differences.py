"""Compares what two implementations made of one text, and says in words what differs first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhapsode.published.trace import SpeechTrace

CLOSE = 2e-3
"""Latents may differ by so much: float sums in another order."""
EXACT_DB = 60.0
"""A waveform with at least this signal-to-noise ratio is the same up to rounding in float32."""
ROUNDED_DB = 20.0
"""bfloat16 has 8 bits: one rounding of every weight leaves 25 to 50 dB."""
SAME_GAIN = 0.01
BANDS, WINDOW_S, HOP_S = 40, 0.025, 0.0125
Wave = NDArray[np.float32]


@dataclass(frozen=True)
class Difference:
    """How far our speech is from upstream's."""

    frames: int | None
    """Frames that both have."""
    equal_frames: int | None
    """How many of them are equal from the beginning on."""
    mel_db: float | None
    gain: float | None
    """Ours is about so many times upstream's, where the waveforms are alike."""
    snr_db: float | None
    """Upstream's level over that of the difference, after the gain is taken out."""
    findings: tuple[str, ...]


def compare(ours: SpeechTrace, theirs: SpeechTrace) -> Difference:
    frames, equal = _equal_frames(ours, theirs)
    samples = min(len(ours.wave), len(theirs.wave))
    if equal is not None and frames is not None and equal < frames:  # the sound of other frames is another one
        samples = round(samples * equal / frames) // 2
    gain = snr_db = None
    distance = _mel_distance(ours.wave, theirs.wave, ours, theirs)
    if frames is None and samples:  # silence around sentences may be cut elsewhere
        one, other = _aligned(ours.wave, theirs.wave)
        gain, snr_db = _gain_and_snr(one, other)
        distance = _mel_distance(one, other, ours, theirs)
    elif samples:
        gain, snr_db = _gain_and_snr(ours.wave[:samples], theirs.wave[:samples])
    findings = tuple(_findings(ours, theirs, frames, equal, gain, snr_db))
    return Difference(frames, equal, distance, gain, snr_db, findings)


def _equal_frames(ours: SpeechTrace, theirs: SpeechTrace) -> tuple[int | None, int | None]:
    if ours.frames is None or theirs.frames is None:
        return None, None
    count = min(len(ours.frames), len(theirs.frames))
    one, other = ours.frames[:count], theirs.frames[:count]
    if one.shape != other.shape:
        return count, 0
    if np.issubdtype(other.dtype, np.integer):
        same = (one == other).reshape(count, -1).all(axis=1)
    else:
        scale = max(float(np.abs(other).max(initial=0.0)), 1e-9)
        same = (np.abs(one - other) <= CLOSE * scale).reshape(count, -1).all(axis=1)
    return count, count if same.all() else int(np.argmin(same))


def _gain_and_snr(ours: Wave, theirs: Wave) -> tuple[float | None, float | None]:
    one, other = ours.astype(np.float64), theirs.astype(np.float64)
    power = float(other @ other)
    if not power or not np.isfinite(power) or not np.isfinite(one).all():
        return None, None
    gain = float(one @ other) / power
    wrong = float(((one - gain * other) ** 2).sum())
    level = max(gain * gain * power, 1e-30)
    return gain, float(10 * np.log10(level / max(wrong, level * 1e-12)))


def _aligned(ours: Wave, theirs: Wave) -> tuple[Wave, Wave]:
    """Returns what both have, shifted to where they are most alike."""
    size = 1 << (len(ours) + len(theirs)).bit_length()
    alike = np.fft.irfft(np.fft.rfft(theirs, size) * np.fft.rfft(ours, size).conj(), size)
    shift = int(np.argmax(np.abs(alike)))
    shift -= size if shift > size // 2 else 0
    one, other = ours[max(0, -shift) :], theirs[max(0, shift) :]
    samples = min(len(one), len(other))
    return one[:samples], other[:samples]


def _mel_distance(one: Wave, other: Wave, ours: SpeechTrace, theirs: SpeechTrace) -> float | None:
    """Returns by how many dB two recordings differ in a mel band of a window, on average over the shorter one's length.

    `None`: they have different rates, or are shorter than a window.
    """
    samples = min(len(one), len(other))
    if ours.sample_rate != theirs.sample_rate or samples < round(WINDOW_S * ours.sample_rate):
        return None
    levels = [log_mel(wave[:samples], ours.sample_rate) for wave in (one, other)]
    return float(np.abs(levels[0] - levels[1]).mean())


def log_mel(samples: Wave, sample_rate: int) -> NDArray[np.float64]:
    """Returns the level of each mel band in dB, `[windows, bands]`; nothing is lower than -100."""
    size, hop = round(WINDOW_S * sample_rate), round(HOP_S * sample_rate)
    windows = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), size)[::hop]
    power = np.abs(np.fft.rfft(windows * np.hanning(size), axis=1)) ** 2 / size
    edges = np.linspace(0, 2595 * np.log10(1 + sample_rate / 2 / 700), BANDS + 2)
    hertz = 700 * (10 ** (edges / 2595) - 1)
    bins = np.fft.rfftfreq(size, 1 / sample_rate)
    rising = (bins - hertz[:-2, None]) / (hertz[1:-1] - hertz[:-2])[:, None]
    falling = (hertz[2:, None] - bins) / (hertz[2:] - hertz[1:-1])[:, None]
    bands = np.clip(np.minimum(rising, falling), 0, None)
    return np.asarray(10 * np.log10(np.maximum(power @ bands.T, 1e-10)))


def _findings(
    ours: SpeechTrace,
    theirs: SpeechTrace,
    frames: int | None,
    equal: int | None,
    gain: float | None,
    snr_db: float | None,
) -> Iterator[str]:
    if ours.sample_rate != theirs.sample_rate:
        yield f"sample rate: {ours.sample_rate} here, {theirs.sample_rate} upstream"
    if equal is not None and frames is not None and equal < frames:
        if equal == 0:
            yield "talker: the first frame differs already: the prompt (a token id, the voice) or the weights differ"
        else:
            yield f"talker: frames are equal up to {equal} of {frames}, then another choice"
        if equal < 2:
            return
    if ours.frames is not None and theirs.frames is not None and len(ours.frames) != len(theirs.frames):
        yield f"length: {len(ours.frames)} frames here, {len(theirs.frames)} upstream"
    alike = equal is None or equal == frames
    if gain is None or snr_db is None:
        yield "codec: the waveform is silent or not finite on one side"
    elif snr_db < ROUNDED_DB and alike:
        yield f"codec: the waveforms are not alike (signal to noise {snr_db:.0f} dB)"
    elif snr_db < EXACT_DB and alike:
        yield f"codec: about as exact as bfloat16 (signal to noise {snr_db:.0f} dB): its weights or sums were rounded"
    if gain is not None and snr_db is not None and snr_db >= ROUNDED_DB and alike and abs(gain - 1) > SAME_GAIN:
        yield f"codec: the samples are {gain:.3g} times upstream's: a wrong scale"
