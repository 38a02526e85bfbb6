"""The codec stage: frames to samples, batched over slots."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rhapsode.device.slots import Rows
from rhapsode.errors import GenerationFailed, InvalidRequest
from rhapsode.models.base import StageContext
from rhapsode.models.qwen3_tts.decoder import DecoderState
from rhapsode.models.qwen3_tts.parts import decoder

_PIECE = 64  # frames of a reference run at a time: bounds the memory of a long one


class QwenCodec:
    """Streams a `CodecDecoder`; what it needs of the past is in the slot, so no frame is decoded twice."""

    channels = 1
    lookahead_frames = 0

    def __init__(self, context: StageContext) -> None:
        self._decoder = decoder(context)
        self._config = self._decoder.config
        self.hop = self._config.hop

    def state(self, slots: int) -> DecoderState:
        return self._decoder.state(slots)

    def open(self, payload: Any, rows: Rows, state: DecoderState) -> None:
        """Let the slot have heard the payload's `reference_codes`, `[F, G]`, where it has some.

        Speech then goes on from the reference, and nothing of the reference itself is heard. The transformer runs over
        all of it; the convolutions after it remember its last frames only, so they run over no more.
        """
        codes = getattr(payload, "reference_codes", None)
        if codes is None or not len(codes):
            return
        codes = torch.as_tensor(codes)
        books, last = self._config.num_quantizers, self._config.codebook_size - 1
        if codes.ndim != 2 or codes.shape[1] != books:
            raise InvalidRequest(f"Reference codes have the shape [frames, {books}], not {list(codes.shape)}.")
        if self._outside(codes):
            raise InvalidRequest(f"Reference codes are from 0 to {last}.")
        codes = codes.to(rows.slots.device, torch.int64)[None]  # [1, F, G]
        latents = [self._decoder.latents(piece, rows.slots, state) for piece in codes.split(_PIECE, dim=1)]
        remembered = torch.cat(latents, dim=1)[:, -self._config.settle_frames :]
        self._decoder.waveform(remembered, rows.slots, state)

    def decode(self, frames: Tensor, ahead: int, rows: Rows, state: DecoderState) -> Tensor:
        # Where looking costs nothing, an impossible code is found before it changes a slot. On a GPU it would mean to
        # wait: there the talker's word has to do, and the lookup's own bounds check.
        if frames.device.type == "cpu" and self._outside(frames):
            raise GenerationFailed(f"A frame holds a code that is not from 0 to {self._config.codebook_size - 1}.")
        return self._decoder(frames, rows.slots, state)  # [B, 1, n * hop]

    def _outside(self, codes: Tensor) -> bool:
        lowest, highest = codes.aminmax()
        return bool(lowest < 0) or bool(highest >= self._config.codebook_size)
