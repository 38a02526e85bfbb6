"""The teacher's speech on the device: appends shards as they appear, returns crops and whole utterances."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from teacher import HOP, MOMENTS

FRAMES_PER_HOUR = 12.5 * 3600


class Spoken(NamedTuple):
    """One utterance: its sentence and the position of its frames."""

    sentence: int
    start: int
    frames: int
    voice: int = 0
    """A preset, or a mixture of voices if it is negative."""


class Speech:
    def __init__(self, shards: Path, hours: float, device: torch.device, share: tuple[int, int] = (0, 1)) -> None:
        """`share` (i, n) reads every n-th shard, from the i-th on."""
        self._shards, self._share = shards, share
        self._seen: set[Path] = set()
        self._most = int(hours * FRAMES_PER_HOUR)
        self.audio = torch.zeros(self._most * HOP, dtype=torch.int16, device=device)
        self.phonemes = torch.zeros(self._most, len(MOMENTS), dtype=torch.uint8, device=device)
        self.utterances: list[Spoken] = []
        self.frames = 0
        self._count = torch.zeros((), dtype=torch.float64, device=device)  # the same, where a graph can read it

    @property
    def hours(self) -> float:
        return self.frames / FRAMES_PER_HOUR

    def load(self, most: int = 4) -> int:
        """Appends new shards, up to a number."""
        there = sorted(self._shards.glob("*.npz"))
        new = [path for path in there if path not in self._seen and self._ours(path)][:most]
        for path in new:
            self._seen.add(path)
            with np.load(path) as shard:
                self._append(shard["audio"], shard["phonemes"], shard["index"])
        return len(new)

    def _ours(self, path: Path) -> bool:
        first, of = self._share
        return int(path.stem.rpartition("-")[2]) % of == first

    def _append(self, audio: np.ndarray, phonemes: np.ndarray, index: np.ndarray) -> None:
        start, stop = self.frames, self.frames + len(phonemes)
        if stop > self._most:
            return
        self.audio[start * HOP : stop * HOP] = torch.from_numpy(audio).to(self.audio.device)
        self.phonemes[start:stop] = torch.from_numpy(phonemes).to(self.audio.device)
        for sentence, frames, *voice in index.tolist():
            self.utterances.append(Spoken(sentence, start, frames, *voice))
            start += frames
        self.frames = stop
        self._count.fill_(stop)

    def crops(self, batch: int, frames: int) -> tuple[Tensor, Tensor]:
        """Returns random crops: samples `[B, 1, frames * HOP]` within [-1, 1] and phonemes `[B, frames, 4]`."""
        device = self.audio.device
        start = (torch.rand(batch, dtype=torch.float64, device=device) * (self._count - frames)).long()
        samples = self.audio[(start * HOP)[:, None] + torch.arange(frames * HOP, device=device)]
        phonemes = self.phonemes[start[:, None] + torch.arange(frames, device=device)]
        return samples[:, None].float() / 32768, phonemes.long()

    def whole(self, spoken: list[Spoken], lead: int = 0) -> Tensor:
        """Returns these utterances after `lead` frames of silence, padded with silence, `[B, 1, longest * HOP]`."""
        longest = max(one.frames for one in spoken)
        samples = torch.zeros(len(spoken), 1, (lead + longest) * HOP, device=self.audio.device)
        for row, one in zip(samples[:, 0, lead * HOP :], spoken, strict=True):
            row[: one.frames * HOP] = self.audio[one.start * HOP : (one.start + one.frames) * HOP].float() / 32768
        return samples
