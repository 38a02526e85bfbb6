"""The codec stage: frames to samples, batched over slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rhapsode.device.ragged import LaunchSizes, ragged_runs
from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.device.upload import upload
from rhapsode.errors import GenerationFailed, InvalidRequest
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.qwen3_tts.decoder import DecoderState
from rhapsode.models.qwen3_tts.parts import decoder
from rhapsode.models.qwen3_tts.prompt import Ids, QwenPrompt

_PIECE = 64  # frames of a reference run at a time: bounds the memory of a long one


class QwenCodec:
    """Streams a `CodecDecoder`; what it needs of the past is in the slot, so no frame is decoded twice."""

    channels = 1
    reach = Reach()

    def __init__(self, context: StageContext) -> None:
        self._decoder = decoder(context)
        self._config = self._decoder.config
        self.hop = self._config.hop

    def traits(self) -> Traits:
        return Traits(open=self.open, takes_all_cores=self._decoder.packed is not None)

    def state(self, slots: int) -> DecoderState:
        return self._decoder.state(slots)

    def open(
        self, payloads: Sequence[QwenPrompt], rows: Rows, state: DecoderState, sizes: LaunchSizes | None = None
    ) -> None:
        """Runs the `reference_codes [F, G]` of each prompt that has some through its slot.

        Speech then continues from the reference, whose own audio is dropped. The transformer runs over the whole
        reference; the convolutions after it depend only on its last frames, so they run over those.
        """
        codes_of = {i: p.reference_codes for i, p in enumerate(payloads) if p.reference_codes is not None}
        primed = [i for i, codes in codes_of.items() if len(codes)]
        references = [self._checked(codes_of[i]) for i in primed]
        if not references:
            return
        slots = rows.slots[upload(np.array(primed), rows.slots.device)]
        settle = self._config.settle_frames
        latents: list[list[Tensor]] = [[] for _ in references]
        for run in ragged_runs([len(codes) for codes in references], slots, rows.scratch, _PIECE, sizes):
            made = self._decoder.latents(run.stack(references), run.slots, state)
            for i, row in zip(run.which, made, strict=False):  # rows that are only padding are last
                latents[i] = [*latents[i], row][-settle:]
        ends = [torch.cat(pieces)[-settle:] for pieces in latents]
        for run in ragged_runs([len(end) for end in ends], slots, rows.scratch, settle, sizes):
            self._decoder.waveform(run.stack(ends), run.slots, state)

    def _checked(self, codes: Ids) -> Ids:
        books, last = self._config.num_quantizers, self._config.codebook_size - 1
        if codes.ndim != 2 or codes.shape[1] != books:
            raise InvalidRequest(f"Reference codes have the shape [frames, {books}], not {list(codes.shape)}.")
        if codes.min() < 0 or codes.max() > last:
            raise InvalidRequest(f"Reference codes are from 0 to {last}.")
        return np.asarray(codes, np.int64)

    def decode(self, window: Window, rows: Rows, state: DecoderState) -> Tensor:
        frames = window.frames
        # On a CPU, an invalid code is found before it changes a slot. On a GPU this check would have to wait for the
        # codes: there the talker is trusted, and the lookup checks its own bounds.
        if frames.device.type == "cpu" and self._outside(frames):
            raise GenerationFailed(f"A frame holds a code that is not from 0 to {self._config.codebook_size - 1}.")
        return self._decoder(frames, rows.slots, state)  # [B, 1, n * hop]

    def _outside(self, codes: Tensor) -> bool:
        lowest, highest = codes.aminmax()
        return bool(lowest < 0) or bool(highest >= self._config.codebook_size)
