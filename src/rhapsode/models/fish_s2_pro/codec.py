"""The codec stage: frames to samples, batched over slots."""

from __future__ import annotations

from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.models.base import StageContext
from rhapsode.models.fish_s2_pro import parts
from rhapsode.models.fish_s2_pro.decoder import DecoderState


class FishCodec:
    """Streams a `CodecDecoder`; what it needs of the past is in the slot, so no frame is decoded twice."""

    channels = 1
    reach = Reach()

    def __init__(self, context: StageContext) -> None:
        self._decoder = parts.decoder(context)
        self.hop = self._decoder.config.hop

    def state(self, slots: int) -> DecoderState:
        return self._decoder.state(slots)

    def decode(self, window: Window, rows: Rows, state: DecoderState) -> Tensor:
        return self._decoder(window.frames, rows.slots, state)  # [B, 1, n * hop]
