"""The codec stage: frames to samples, batched over slots."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.errors import GenerationFailed
from rhapsode.models.base import StageContext
from rhapsode.models.voxtral_tts import parts
from rhapsode.models.voxtral_tts.config import OFFSET
from rhapsode.nn.streaming import ChainState

AT_ONCE = 512
"""Frames in one pass: bounds the memory of its buffers."""


class VoxtralCodec:
    """Streams a `CodecDecoder`; what it needs of the past is in the slot, so no frame is decoded twice."""

    channels = 1
    reach = Reach()

    def __init__(self, context: StageContext) -> None:
        self._decoder = parts.decoder(context)
        config = self._decoder.config
        self.hop = config.hop
        self._largest = torch.tensor(
            [config.semantic_codebook_size, *[config.acoustic_codebook_size] * config.acoustic_dim],
            device=context.device,
        )

    def state(self, slots: int) -> ChainState:
        return self._decoder.state(slots)

    def decode(self, window: Window, rows: Rows, state: ChainState) -> Tensor:
        frames = window.frames
        # Where looking costs nothing, an impossible code is found before it changes a slot. On a GPU it would mean to
        # wait: there the talker's word has to do, and the lookup's own bounds check.
        if frames.device.type == "cpu" and self._outside(frames):
            raise GenerationFailed("a frame holds a code that its codebook does not have.")
        most = max(1, AT_ONCE // frames.shape[1])
        batches = zip(frames.split(most), rows.slots.split(most), strict=True)
        pieces = [self._decoder(some, slots, state) for some, slots in batches]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _outside(self, frames: Tensor) -> bool:
        return bool(((frames < OFFSET) | (frames >= self._largest + OFFSET)).any())
