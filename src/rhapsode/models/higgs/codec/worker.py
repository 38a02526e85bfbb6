"""The codec stage: frames to samples, batched over slots."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.models.higgs.codec.decoder import HiggsDecoder, HiggsDecoderState


class HiggsCodec:
    """Streams a `HiggsDecoder`. Its state of earlier frames is in the slot, so no frame is read twice."""

    channels = 1

    def __init__(self, decoder: HiggsDecoder) -> None:
        self._decoder = decoder
        self.hop = decoder.settings.hop
        self.reach = Reach(lookahead=decoder.lookahead, incremental=True)

    def state(self, slots: int) -> HiggsDecoderState:
        return self._decoder.state(slots)

    def decode(self, window: Window, rows: Rows, state: HiggsDecoderState) -> Tensor:
        """Decodes the window's frames, and returns the samples of the last `due` frames that the decoder makes."""
        frames = window.frames
        present = frames.new_ones(frames.shape[:2], dtype=torch.bool) if window.present is None else window.present
        audio = self._decoder(frames, present, rows.slots, state)
        return audio[..., -window.due * self.hop :]  # [B, 1, due * hop]
