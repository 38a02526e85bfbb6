"""The codec stage: patches to samples, batched over slots."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rhapsode.device.slots import Rows
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.voxcpm2 import parts
from rhapsode.models.voxcpm2.config import read
from rhapsode.models.voxcpm2.vae import VaeState

AT_ONCE = 128
"""Patches in one pass: their buffers take some 20 MB each, and more is no faster."""


class VoxCodec:
    """Streams a `VaeDecoder`; what it needs of the past is in the slot, so no patch is decoded twice."""

    channels = 1
    lookahead_frames = 0

    def __init__(self, context: StageContext) -> None:
        self._decoder = parts.decoder(context)
        config = self._decoder.config
        if config.out_sample_rate != context.spec.sample_rate:
            right = context.spec.sample_rate
            raise CheckpointError(f"'out_sample_rate' is {config.out_sample_rate}; {context.spec.name} has {right}.")
        self.hop = read(context.config).patch.patch_size * config.hop

    def state(self, slots: int) -> VaeState:
        return self._decoder.state(slots)

    def open(self, payload: Any, rows: Rows, state: VaeState) -> None:
        """Let the slot have heard the end of what is continued: speech goes on from it, and it is not heard again."""
        heard = getattr(payload, "heard", None)
        if heard is not None and len(heard):
            self.decode(torch.from_numpy(heard)[None].to(rows.slots.device), 0, rows, state)

    def decode(self, frames: Tensor, ahead: int, rows: Rows, state: VaeState) -> Tensor:
        """`frames [B, n, patch, feat]`."""
        most = max(1, AT_ONCE // frames.shape[1])
        batches = zip(frames.flatten(1, 2).split(most), rows.slots.split(most), strict=True)
        pieces = [self._decoder(latents, slots, state) for latents, slots in batches]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)
