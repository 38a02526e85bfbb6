"""The vocoder stage: mel frames to samples, batched over slots."""

from __future__ import annotations

from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.nn.hift.net import HiftNet, HiftState
from rhapsode.nn.hift.source import SourceNoise, counter_noise


class CosyVocoder:
    """Streams a `HiftNet`; its state of earlier frames is in the slot."""

    channels = 1

    def __init__(self, net: HiftNet, noise: SourceNoise = counter_noise) -> None:
        self._net, self._noise = net, noise
        self.hop = net.settings.hop
        self.reach = Reach(lookahead=net.settings.lookahead)

    def state(self, slots: int) -> HiftState:
        return self._net.state(slots)

    def decode(self, window: Window, rows: Rows, state: HiftState) -> Tensor:
        assert window.present is not None
        return self._net(window.frames, window.present, rows, state, self._noise)[:, None]  # [B, 1, due * hop]
