"""A stateful codec: each codebook drives an oscillator whose phase lives in the slot."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import StageContext
from rhapsode.models.dummy.talker import CODEBOOKS, CODES

TURN = 4096
"""Steps of the oscillators' circle: a power of two, so that going round is a mask."""


class DummyCodecState(State):
    def __init__(self, slots: int, device: torch.device) -> None:
        self.phase = buffer(slots, CODEBOOKS, 1, dtype=torch.int32, device=device)
        self.tail = buffer(slots, 1, device=device)  # the last sample before smoothing


class DummyCodec:
    """Tones, smoothed over two samples; with look-ahead, louder where the next frame is a high one."""

    channels = 1

    def __init__(self, context: StageContext) -> None:
        self._device = torch.device(context.device)
        rate = context.spec.sample_rate
        self.hop = int(rate / (context.spec.frame_hz or 50))
        self.lookahead_frames = context.settings.lookahead
        turn = torch.arange(TURN, dtype=torch.float64) * (2 * math.pi / TURN)
        self._sine = (turn.sin() * (0.5 / CODEBOOKS)).to(torch.float32).to(self._device)
        speeds = [round((110 + 8 * code) * TURN / rate) for code in range(CODES)]
        self._speed = torch.tensor(speeds, dtype=torch.int32, device=self._device)

    def state(self, slots: int) -> DummyCodecState:
        return DummyCodecState(slots, self._device)

    def open(self, payload: Any, rows: Rows, state: DummyCodecState) -> None:
        """Nothing of the prompt matters to an oscillator."""

    def decode(self, frames: Tensor, ahead: int, rows: Rows, state: DummyCodecState) -> Tensor:
        slots, n = rows.slots, frames.shape[1] - ahead
        speed = self._speed[frames[:, :n].transpose(1, 2)].repeat_interleave(self.hop, dim=2)  # [B, G, T]
        phase = (state.phase[slots] + speed.cumsum(2, dtype=torch.int32)) & (TURN - 1)
        tone = self._sine[phase].sum(1) * self._loudness(frames, n).repeat_interleave(self.hop, dim=1)
        shifted = torch.cat([state.tail[slots], tone[:, :-1]], dim=1)
        state.phase[slots] = phase[:, :, -1:]
        state.tail[slots] = tone[:, -1:]
        return ((tone + shifted) * 0.5)[:, None]

    def _loudness(self, frames: Tensor, n: int) -> Tensor:
        if not self.lookahead_frames:
            return torch.ones(frames.shape[0], n, device=frames.device)
        coming = frames[:, 1 : n + 1, 0]
        level = 0.5 + 0.5 * (coming >= CODES // 2).to(torch.float32)
        return torch.nn.functional.pad(level, (0, n - level.shape[1]), value=0.5)
