"""The talker: one frame of codes per step, and the decision to end before each frame."""

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
from rhapsode.models.moss_tts_nano import parts
from rhapsode.models.moss_tts_nano.config import MossConfig, read
from rhapsode.models.moss_tts_nano.net import Choose, Decide
from rhapsode.models.moss_tts_nano.prompt import MossPrompt
from rhapsode.models.written_stack import WrittenStack
from rhapsode.nn.kernels.sampling import Rules, Settings
from rhapsode.nn.sampling import Gumbel, Noise, draw
from rhapsode.types import Sampling


class MossState(State):
    """The talker's state per slot, in addition to keys and values."""

    def __init__(self, slots: int, config: MossConfig, dtype: torch.dtype, device: torch.device) -> None:
        self.next = buffer(slots, config.layers.n_embd, dtype=dtype, device=device)  # the next step's input
        # Codes generated so far, by codebook: what the repetition penalty is applied to.
        self.history = buffer(slots, config.books, config.codes, dtype=torch.bool, device=device)
        self.books = buffer(slots, dtype=torch.int64, device=device)  # codebooks in use
        self.temperature = buffer(slots, device=device)  # of the decision to end
        self.top_k = buffer(slots, dtype=torch.int64, device=device)
        self.top_p = buffer(slots, device=device)


class MossTalker(WrittenStack[MossConfig, MossPrompt, MossState]):
    state_type = MossState
    frame_dtype = torch.int64
    defaults = Sampling(temperature=0.8, top_k=25, top_p=0.95, repetition_penalty=1.2)
    """The defaults of upstream's command line and servers; no file of the checkpoint has them."""

    def __init__(self, context: StageContext) -> None:
        config = read(context.config)
        self.net = parts.talker(config, context)
        super().__init__(config, context, [self.net.transformer], self.net.embed, _blank_row(config))
        self.frame_shape = (config.books,)
        self._gumbel = Gumbel([2] + [config.codes] * config.books, self._device)
        self._book = torch.arange(config.books, device=self._device)
        self._no_code = torch.zeros(config.codes, dtype=torch.bool, device=self._device)

    # --- the prompt ---

    def first_input(self, prompts: Sequence[MossPrompt], state: MossState) -> tuple[NDArray[Any], ...]:
        temperature, top_k, top_p = zip(*(prompt.ending for prompt in prompts), strict=True)
        integers = np.column_stack([[prompt.books for prompt in prompts], top_k]).astype(np.int64)
        floats = np.column_stack([temperature, top_p]).astype(np.float32)
        return np.stack([prompt.last for prompt in prompts]), integers, floats

    def write_first(self, state: MossState, slots: Tensor, last: Tensor, integers: Tensor, floats: Tensor) -> None:
        """Fills the state that the first step reads. A following prompt starts with an empty history, too."""
        state.next[slots] = self.net.embed(last)
        state.history.index_fill_(0, slots, False)
        state.books[slots], state.top_k[slots] = integers.unbind(1)
        state.temperature[slots], state.top_p[slots] = floats.unbind(1)

    def blank_input(self, state: MossState) -> tuple[NDArray[Any], ...]:
        return self._blank[None], np.zeros((1, 2), np.int64), np.zeros((1, 2), np.float32)

    # --- the step ---

    def step(self, rows: Rows, state: MossState) -> Step:
        slots = rows.slots
        hidden = self.hidden(state.next[slots][:, None], rows, rows.positions[:, None])[:, 0]
        noise = self._gumbel(rows.seeds, rows.steps)
        stopped, codes = self.net.frame(hidden, self._decide(noise[0], rows, state), self._choose(noise, rows, state))
        unused = self._book >= state.books[slots][:, None]
        frame = codes.masked_fill(unused, self._config.codes)
        following = self.net.embed_frame(frame)
        drawn = (slots[:, None] * self._config.books + self._book) * self._config.codes + codes
        state.history.view(-1).index_fill_(0, drawn.flatten(), 1)  # 1, not True: a trace takes no bool here
        state.next[slots] = following
        return Step(frame, ~stopped, stopped)

    def _decide(self, noise: Noise, rows: Rows, state: MossState) -> Decide:
        slots = rows.slots
        # A greedy request decides greedily whether to end, too.
        temperature = state.temperature[slots] * (rows.temperature > 0)
        settings = Settings(temperature, state.top_k[slots], state.top_p[slots])
        return lambda logits: draw(logits, settings, noise, settings.partial_k())

    def _choose(self, noise: Sequence[Noise], rows: Rows, state: MossState) -> Choose:
        slots = rows.slots
        settings = Settings.of(rows)
        partial_k, penalty, steps = settings.partial_k(), rows.repetition_penalty, rows.steps
        history, places = state.history.flatten(0, 1), self._book[:, None] + slots * self._config.books

        def choose(book: int, logits: Tensor) -> Tensor:
            rules = Rules(
                history, places[book], penalty, banned=self._no_code, late=self._no_code, steps=steps, least_steps=0
            )
            return draw(logits, settings, noise[1 + book], partial_k, rules)

        return choose


def _blank_row(config: MossConfig) -> NDArray[np.int64]:
    row = np.full(1 + config.books, config.tokens.audio_pad_token_id, np.int64)
    row[0] = config.tokens.im_start_token_id
    return row
