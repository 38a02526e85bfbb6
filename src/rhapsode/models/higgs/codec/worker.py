"""The codec stage: frames to samples, batched over slots."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.models.higgs.codec.decoder import HiggsDecoder, HiggsDecoderState


class HiggsCodec:
    """Streams a `HiggsDecoder`. All it needs of the past is in the slot: it re-reads no frame."""

    channels = 1

    def __init__(self, decoder: HiggsDecoder) -> None:
        self._decoder = decoder
        self.hop = decoder.settings.hop
        self.reach = Reach(lookahead=decoder.lookahead, incremental=True)

    def state(self, slots: int) -> HiggsDecoderState:
        return self._decoder.state(slots)

    def decode(self, window: Window, rows: Rows, state: HiggsDecoderState) -> Tensor:
        """Gives the decoder the window's frames; the last `due` frames that come out are those to be heard."""
        frames = window.frames
        present = frames.new_ones(frames.shape[:2], dtype=torch.bool) if window.present is None else window.present
        audio = self._decoder(frames, present, rows.slots, state)
        return audio[..., -window.due * self.hop :]  # [B, 1, due * hop]
