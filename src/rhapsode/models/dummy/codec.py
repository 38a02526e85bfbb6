"""A stateful codec: each codebook drives an oscillator whose phase lives in the slot."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import StageContext
from rhapsode.models.dummy.talker import CODEBOOKS, CODES

TURN = 4096
"""Steps in one period of an oscillator: a power of two, so that a bit mask wraps the phase."""


class DummyCodecState(State):
    def __init__(self, slots: int, device: torch.device) -> None:
        self.phase = buffer(slots, CODEBOOKS, 1, dtype=torch.int32, device=device)
        self.tail = buffer(slots, 1, device=device)  # the last sample before smoothing


class DummyCodec:
    """Makes tones, smoothed over two samples. With look-ahead, a frame is louder if the next frame has a high code."""

    channels = 1

    def __init__(self, context: StageContext) -> None:
        self._device = torch.device(context.device)
        rate = context.spec.sample_rate
        self.hop = int(rate / (context.spec.frame_hz or 50))
        self.reach = Reach(lookahead=context.settings.lookahead)
        turn = torch.arange(TURN, dtype=torch.float64) * (2 * math.pi / TURN)
        self._sine = (turn.sin() * (0.5 / CODEBOOKS)).to(torch.float32).to(self._device)
        speeds = [round((110 + 8 * code) * TURN / rate) for code in range(CODES)]
        self._speed = torch.tensor(speeds, dtype=torch.int32, device=self._device)

    def state(self, slots: int) -> DummyCodecState:
        return DummyCodecState(slots, self._device)

    def decode(self, window: Window, rows: Rows, state: DummyCodecState) -> Tensor:
        slots = rows.slots
        speed = self._speed[window.center.transpose(1, 2)].repeat_interleave(self.hop, dim=2)  # [B, G, T]
        phase = (state.phase[slots] + speed.cumsum(2, dtype=torch.int32)) & (TURN - 1)
        tone = self._sine[phase].sum(1) * self._loudness(window).repeat_interleave(self.hop, dim=1)
        shifted = torch.cat([state.tail[slots], tone[:, :-1]], dim=1)
        state.phase[slots] = phase[:, :, -1:]
        state.tail[slots] = tone[:, -1:]
        return ((tone + shifted) * 0.5)[:, None]

    def _loudness(self, window: Window) -> Tensor:
        """Returns the loudness of each frame, `[B, due]`, which depends on the next frame; the last frame is quiet."""
        if window.present is None:
            return torch.ones(window.center.shape[:2], device=self._device)
        high = (window.frames[..., 0] >= CODES // 2) & window.present
        return 0.5 + 0.5 * high[:, 1 : window.due + 1].to(torch.float32)
