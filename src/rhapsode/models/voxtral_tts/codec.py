"""The codec stage: frames to samples, batched over slots."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.errors import GenerationFailed
from rhapsode.models.base import StageContext
from rhapsode.models.voxtral_tts import parts
from rhapsode.models.voxtral_tts.codec_net import VoxtralCodecDecoder
from rhapsode.models.voxtral_tts.config import OFFSET
from rhapsode.models.voxtral_tts.spec import VoxtralSettings

AT_ONCE = 512
"""Frames in one pass: bounds the memory of its buffers."""


class VoxtralCodecState(State):
    def __init__(self, decoder: VoxtralCodecDecoder, slots: int) -> None:
        self.decoder = decoder.state(slots)
        self.decoded = buffer(slots, dtype=torch.int64, device=decoder.output_proj.conv.weight.device)  # frames


class VoxtralCodec:
    """Streams a `VoxtralCodecDecoder`; what it needs of the past is in the slot, so no frame is decoded twice."""

    channels = 1
    reach = Reach()

    def __init__(self, context: StageContext) -> None:
        self._decoder = parts.decoder(context)
        config = self._decoder.config
        self.hop = config.hop
        settings: VoxtralSettings = context.settings
        self._warm_up = settings.warm_up_frames
        self._fade = round(settings.fade_in_ms / 1000 * config.sampling_rate)
        self._largest = torch.tensor(
            [config.semantic_codebook_size, *[config.acoustic_codebook_size] * config.acoustic_dim],
            device=context.device,
        )

    def state(self, slots: int) -> VoxtralCodecState:
        return VoxtralCodecState(self._decoder, slots)

    def decode(self, window: Window, rows: Rows, state: VoxtralCodecState) -> Tensor:
        frames = window.frames
        # On a CPU, an invalid code is found before it changes a slot. On a GPU this check would have to wait for the
        # codes: there the talker is trusted, and the lookup checks its own bounds.
        if frames.device.type == "cpu" and self._outside(frames, rows.slots, state):
            raise GenerationFailed("a frame holds a code that its codebook does not have.")
        most = max(1, AT_ONCE // frames.shape[1])
        batches = zip(frames.split(most), rows.slots.split(most), strict=True)
        pieces = [self._run(some, slots, state) for some, slots in batches]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _run(self, frames: Tensor, slots: Tensor, state: VoxtralCodecState) -> Tensor:
        before = state.decoded.index_select(0, slots)
        if self._warm_up:
            # Only new slots are warmed up; rows of other slots write to the scratch row. The host cannot know which.
            new = torch.where(before == 0, slots, len(state.decoded) - 1)
            self._decoder(frames[:, :1].expand(-1, self._warm_up, -1), new, state.decoder)
        audio = self._decoder(frames, slots, state.decoder)
        if self._fade:
            sample = before[:, None, None] * self.hop + torch.arange(audio.shape[-1], device=audio.device)
            audio = audio * (sample / self._fade).clamp(max=1).to(audio.dtype)
        state.decoded.index_copy_(0, slots, before + frames.shape[1])
        return audio

    def _outside(self, frames: Tensor, slots: Tensor, state: VoxtralCodecState) -> bool:
        """Returns whether a row has an invalid code. Padding rows, of the scratch slot, have no codes at all."""
        outside = ((frames < OFFSET) | (frames >= self._largest + OFFSET)).flatten(1).any(1)
        return bool((outside & (slots != len(state.decoded) - 1)).any())
