"""All speech of the aligner's training on the device, and rows of it joined at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aligner_speech import SpeltUtterance

RATE = 16_000
SPACE = 1
_TAPS = 8
"""Samples on each side that the resampling filter sees."""


class StoredUtterance(NamedTuple):
    """Where the audio of an utterance lies, and its symbols: a space, then the letters, for each word."""

    start: int
    samples: int
    rate: int
    symbols: NDArray[np.int64]  # [S]
    times: NDArray[np.float32]  # [S, 4], as in `SpeltUtterance`; zeros for spaces


class RowBatch(NamedTuple):
    """Speech `[B, N]`, symbols `[B, S]` padded with blanks, their times `[B, S, 4]` in seconds and their counts."""

    audio: Tensor
    symbols: Tensor
    times: Tensor
    counts: list[int]


class SpeechStore:
    def __init__(self, hours: float, device: torch.device) -> None:
        self._audio = torch.zeros(int(hours * 3600 * 24_000), dtype=torch.int16, device=device)
        self._used = _TAPS
        self.groups: dict[str, list[StoredUtterance]] = {}
        self.hours = 0.0
        self.full = False

    def add(self, group: str, said: Sequence[SpeltUtterance]) -> None:
        audio = np.concatenate([one.audio for one in said])
        if self._used + len(audio) + _TAPS > len(self._audio):
            self.full = True
            return
        self._audio[self._used : self._used + len(audio)] = torch.from_numpy(audio).to(self._audio.device)
        for one in said:
            symbols, times = _spaced(one)
            stored = StoredUtterance(self._used, len(one.audio), one.rate, symbols, times)
            self.groups.setdefault(group, []).append(stored)
            self._used += len(one.audio)
            self.hours += one.seconds / 3600

    def draw(self, rows: int, seconds: float, shares: dict[str, float], rng: np.random.Generator) -> RowBatch:
        """Fills rows with utterances, faster or slower, and silence between them."""
        names, limits = list(shares), np.cumsum(list(shares.values()))
        pieces: list[tuple[int, int, int, float]] = []  # first sample of the batch, samples, source, step
        symbols, times, counts = [], [], []
        for row in range(rows):
            speed, at = float(np.exp(rng.normal(0, 0.13)).clip(0.75, 1.33)), float(rng.uniform(0.02, 0.4))
            found: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
            for _ in range(30):
                group = self.groups[names[int(np.searchsorted(limits, rng.random() * limits[-1]))]]
                said = group[rng.integers(len(group))]
                first, last = _cut(said, rng)
                length = (last - first) / speed
                if at + length > seconds - 0.1:
                    if seconds - at < 2:
                        break
                    continue
                step = said.rate / RATE * speed
                source = said.start + round(first * said.rate)
                pieces.append((row * int(seconds * RATE) + round(at * RATE), round(length * RATE), source, step))
                shifted = (said.times - first) / speed + at
                found.append((said.symbols, shifted.astype(np.float32)))
                at += length + float(rng.exponential(0.15))
            symbols.append(np.concatenate([*(one for one, _ in found), [SPACE]]))
            times.append(np.concatenate([*(one for _, one in found), np.zeros((1, 4), np.float32)]))
            counts.append(len(symbols[-1]))
        return self._batch(rows, seconds, pieces, symbols, times, counts)

    def _batch(
        self,
        rows: int,
        seconds: float,
        pieces: list[tuple[int, int, int, float]],
        symbols: list,
        times: list,
        counts: list,
    ) -> RowBatch:
        device, longest = self._audio.device, -(-max(counts) // 32) * 32
        padded = np.zeros((rows, longest), np.int64)
        when = np.zeros((rows, longest, 4), np.float32)
        for row, (some, their) in enumerate(zip(symbols, times, strict=True)):
            padded[row, : len(some)] = some
            when[row, : len(some)] = _gaps_filled(some, their, seconds)
        audio = self._resampled(pieces, rows * int(seconds * RATE)).view(rows, -1)
        return RowBatch(audio, _moved(padded, device), _moved(when, device), counts)

    def _resampled(self, pieces: list[tuple[int, int, int, float]], total: int) -> Tensor:
        """Returns the joined audio `[total]` within [-1, 1], by windowed sinc interpolation; silence between pieces."""
        device = self._audio.device
        table = _moved(np.array(pieces, np.float64), device)  # [P, 4]
        starts = table[:, 0].contiguous()
        here = torch.arange(total, dtype=torch.float64, device=device)
        piece = (torch.searchsorted(starts, here, right=True) - 1).clamp(min=0)
        within = here - starts[piece]
        inside = (within >= 0) & (within < table[:, 1][piece])
        step = table[:, 3][piece]
        position = within * step
        base = position.floor()
        part = (position - base).float()
        index = (table[:, 2][piece] + base).long().clamp(_TAPS, len(self._audio) - _TAPS - 1)
        cutoff = (0.95 / step).clamp(max=1.0).float()
        sound = torch.zeros(total, device=device)
        for tap in range(1 - _TAPS, _TAPS + 1):
            away = tap - part
            window = torch.cos(away * (torch.pi / 2 / (_TAPS + 1))).square()
            sound += self._audio[index + tap].float() * (torch.sinc(away * cutoff) * cutoff * window)
        return torch.where(inside, sound / 32768, 0.0)


def _moved(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """Copies to the device without waiting for it."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def _spaced(said: SpeltUtterance) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    begins = np.flatnonzero(np.diff(said.times[:, 2], prepend=-1.0))
    symbols = np.insert(said.letters.astype(np.int64), begins, SPACE)
    return symbols, np.insert(said.times, begins, 0.0, axis=0)


def _cut(said: StoredUtterance, rng: np.random.Generator) -> tuple[float, float]:
    """Returns the second from which and to which an utterance is used: with little of the silence around it."""
    first = max(0.0, float(said.times[1, 2]) - rng.uniform(0.03, 0.3))
    last = min(said.samples / said.rate, float(said.times[-1, 3]) + rng.uniform(0.05, 0.4))
    return first, last


def _gaps_filled(symbols: NDArray[np.int64], times: NDArray[np.float32], seconds: float) -> NDArray[np.float32]:
    """Gives each space the time from the end of the word before it to the start of the word after it."""
    space = symbols == SPACE
    before = np.concatenate([[0.0], times[:-1, 3]])
    after = np.concatenate([times[1:, 2], [seconds]])
    gaps = np.stack([before, after, before, after], axis=1)
    return np.where(space[:, None], gaps, times).astype(np.float32)
