"""The codec stage: patches to samples, batched over slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rhapsode.device.ragged import LaunchSizes, ragged_runs
from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.voxcpm2 import parts
from rhapsode.models.voxcpm2.config import read
from rhapsode.models.voxcpm2.prompt import Patches, VoxPrompt
from rhapsode.models.voxcpm2.vae import VaeState

AT_ONCE = 128
"""Patches in one pass: their buffers take some 20 MB each, and more patches are no faster."""


class VoxCodec:
    """Streams a `VaeDecoder`; what it needs of the past is in the slot, so no patch is decoded twice."""

    channels = 1
    reach = Reach()

    def __init__(self, context: StageContext) -> None:
        self._decoder = parts.decoder(context)
        config = self._decoder.config
        if config.out_sample_rate != context.spec.sample_rate:
            right = context.spec.sample_rate
            raise CheckpointError(f"'out_sample_rate' is {config.out_sample_rate}; {context.spec.name} has {right}.")
        self.hop = read(context.config).patch.patch_size * config.hop

    def traits(self) -> Traits:
        return Traits(open=self.open)

    def state(self, slots: int) -> VaeState:
        return self._decoder.state(slots)

    def open(
        self, payloads: Sequence[VoxPrompt], rows: Rows, state: VaeState, sizes: LaunchSizes | None = None
    ) -> None:
        """Runs the last patches before the speech through each slot without output: speech continues from there."""
        heard = [_heard(prompt) for prompt in payloads]
        for run in ragged_runs([len(patches) for patches in heard], rows.slots, rows.scratch, AT_ONCE, sizes):
            self._run(run.stack(heard), run.slots, state)

    def decode(self, window: Window, rows: Rows, state: VaeState) -> Tensor:
        return self._run(window.frames, rows.slots, state)

    def _run(self, frames: Tensor, slots: Tensor, state: VaeState) -> Tensor:
        """Decodes `frames [B, n, patch, feat]`."""
        most = max(1, AT_ONCE // frames.shape[1])
        batches = zip(frames.flatten(1, 2).split(most), slots.split(most), strict=True)
        pieces = [self._decoder(latents, some, state) for latents, some in batches]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def _heard(prompt: VoxPrompt) -> Patches:
    return np.zeros((0,), np.float32) if prompt.heard is None else prompt.heard
