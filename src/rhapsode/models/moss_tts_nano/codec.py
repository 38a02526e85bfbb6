"""The codec stage: frames to stereo samples, batched over slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from rhapsode.device.ragged import LaunchSizes, ragged_runs
from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.errors import CheckpointError, GenerationFailed
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.moss_tts_nano import parts
from rhapsode.models.moss_tts_nano.config import read
from rhapsode.models.moss_tts_nano.prompt import Ids, MossPrompt
from rhapsode.nn.streaming import ChainState

_PIECE = 16  # frames of a continued recording run at a time: bounds the memory of a long one


class MossCodec:
    """Streams a `MossCodecDecoder`; the keys and values it attends to are in the slot, so no frame is decoded twice."""

    reach = Reach()

    def __init__(self, context: StageContext) -> None:
        self._decoder = parts.decoder(context)
        config, spec = self._decoder.config, context.spec
        if (config.sampling_rate, config.number_channels) != (spec.sample_rate, spec.channels):
            found = f"{config.sampling_rate} Hz and {config.number_channels} channels"
            raise CheckpointError(f"the codec has {found}; {spec.name} has {spec.sample_rate} Hz and {spec.channels}.")
        quantizer, talker = config.quantizer, read(context.config)
        if (quantizer.num_quantizers, quantizer.codebook_size) != (talker.books, talker.codes):
            found = f"{quantizer.num_quantizers} codebooks of {quantizer.codebook_size}"
            raise CheckpointError(f"the codec has {found}; the talker has {talker.books} of {talker.codes}.")
        self.hop, self.channels = config.hop, config.number_channels
        self._codes = quantizer.codebook_size

    def traits(self) -> Traits:
        return Traits(open=self.open)

    def state(self, slots: int) -> ChainState:
        return self._decoder.state(slots)

    def open(
        self, payloads: Sequence[MossPrompt], rows: Rows, state: ChainState, sizes: LaunchSizes | None = None
    ) -> None:
        """Runs the codes of a continued recording through its slot without output: speech continues from there."""
        heard = [self._heard(prompt) for prompt in payloads]
        for run in ragged_runs([len(codes) for codes in heard], rows.slots, rows.scratch, _PIECE, sizes):
            self._decoder(run.stack(heard), run.slots, state)

    def _heard(self, prompt: MossPrompt) -> Ids:
        if prompt.heard is None:
            return np.zeros((0, 1), np.int64)
        return np.minimum(prompt.heard, self._codes)  # the prompt's pad id may be a larger number

    def decode(self, window: Window, rows: Rows, state: ChainState) -> Tensor:
        frames = window.frames
        # On a CPU, where the check is cheap, an invalid code is found before it changes a slot.
        if frames.device.type == "cpu":
            lowest, highest = frames.aminmax()
            if bool(lowest < 0) or bool(highest > self._codes):
                raise GenerationFailed(f"A frame holds a code that is not from 0 to {self._codes - 1}.")
        return self._decoder(frames, rows.slots, state)  # [B, channels, n * hop]
