"""The talker: per step a semantic code by argmax and the acoustic codes by the flow head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import StageContext, Step
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.voxtral_tts import parts
from rhapsode.models.voxtral_tts.config import EMPTY, END, OFFSET, VoxtralConfig, read
from rhapsode.models.voxtral_tts.info import has_encoder
from rhapsode.models.voxtral_tts.prompt import CODES, ID, NONE, ROW, VoxtralPrompt
from rhapsode.models.voxtral_tts.tokenizer import Tekken
from rhapsode.models.voxtral_tts.voices import read_voices
from rhapsode.models.written_stack import WrittenStack
from rhapsode.nn.flow import initial_noise
from rhapsode.types import Sampling


class VoxtralState(State):
    """The talker's state per slot, in addition to keys and values."""

    def __init__(self, slots: int, config: VoxtralConfig, dtype: torch.dtype, device: torch.device) -> None:
        self.next = buffer(slots, config.backbone.dim, dtype=dtype, device=device)  # the next step's input
        self.cfg_alpha = buffer(slots, device=device)


class VoxtralTalker(WrittenStack[VoxtralConfig, VoxtralPrompt, VoxtralState]):
    state_type = VoxtralState
    defaults = Sampling(temperature=1.0, top_k=0, top_p=1.0, repetition_penalty=1.0)
    """Only the temperature has an effect: it scales the noise of the flow head."""
    frame_dtype = torch.int64

    def __init__(self, context: StageContext) -> None:
        config = read(context.config)
        self.net = parts.talker(config, context)
        blank = np.full(CODES + config.codes.books, NONE, np.int64)
        super().__init__(config, context, [self.net], self.embed, blank)
        self._wide = torch.promote_types(self._dtype, torch.float32)
        self.frame_shape = (config.codes.books,)
        folder = checkpoint_of(context)
        counts = Tekken(folder).voice_tokens if context.random_weights else {}
        self._voices = read_voices(context, config, counts).table.to(self._device, self._dtype)
        self._has_encoder = has_encoder(folder)
        codes = torch.arange(self.net.acoustic_transformer.semantic_codebook_output.out_features, device=self._device)
        self._banned = (codes == EMPTY) | (codes >= config.codes.semantic_rows)
        if context.random_weights:  # their speech would end at random; measurements need a fixed length
            self._banned |= codes == END

    # --- the prompt ---

    def embed(self, content: Tensor) -> Tensor:
        """Embeds prompt positions: `content [B, T, 3 + books]` to [B, T, dim]."""
        x = self.net.text(content[..., ID].clamp(min=0))
        if len(self._voices):
            row = content[..., ROW]
            x = torch.where((row >= 0)[..., None], self._voices[row.clamp(min=0)], x)
        if self._has_encoder:
            codes = content[..., CODES:]
            frames = self.net.frame(codes.clamp(min=0).flatten(0, 1)).unflatten(0, codes.shape[:2])
            x = torch.where(codes[..., :1] >= 0, frames, x)
        return x

    def first_input(self, prompts: Sequence[VoxtralPrompt], state: VoxtralState) -> tuple[NDArray[Any], ...]:
        last = np.array([prompt.last for prompt in prompts], np.int64)
        return last, np.array([prompt.cfg_alpha for prompt in prompts], np.float32)

    def write_first(self, state: VoxtralState, slots: Tensor, last: Tensor, cfg_alpha: Tensor) -> None:
        state.next[slots] = self.net.text(last)
        state.cfg_alpha[slots] = cfg_alpha

    def blank_input(self, state: VoxtralState) -> tuple[NDArray[Any], ...]:
        return np.zeros(1, np.int64), np.zeros(1, np.float32)

    # --- the step ---

    def step(self, rows: Rows, state: VoxtralState) -> Step:
        slots = rows.slots
        hidden = self.hidden(state.next[slots][:, None], rows, rows.positions[:, None])[:, 0]
        semantic = self.semantic(hidden)
        stopped = semantic == END
        semantic = semantic.clamp(min=OFFSET)  # the end is no code of sound: it must not be looked up as one
        acoustic = self.net.acoustic_transformer.codes(self.noise(rows), hidden, state.cfg_alpha[slots].to(self._wide))
        frame = torch.cat((semantic[:, None], acoustic), dim=1)
        state.next[slots] = self.net.frame(frame)
        return Step(frame, ~stopped, stopped)

    def semantic(self, hidden: Tensor) -> Tensor:
        """Returns the most likely semantic code, [B]; nothing is sampled."""
        return self.net.semantic_logits(hidden).masked_fill(self._banned, float("-inf")).argmax(-1)

    def noise(self, rows: Rows) -> Tensor:
        """Returns the noise that the acoustic numbers of each row start from, [B, acoustic books]."""
        return initial_noise(rows, (self._config.codes.n_acoustic_codebook,), self._wide)
