"""The talker: one frame per step, a token of the slow model and then the codes of the fast one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import StageContext, Step
from rhapsode.models.fish_s2_pro import parts
from rhapsode.models.fish_s2_pro.config import FishConfig, read
from rhapsode.models.fish_s2_pro.prompt import FishPrompt
from rhapsode.models.fish_s2_pro.tokenizer import read_tokens
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.prompted_stack import PromptedStack
from rhapsode.nn.kernels.sampling import NOTHING, Repetition, Settings, TopP
from rhapsode.nn.sampling import Gumbel, Noise, draw
from rhapsode.types import Sampling

WINDOW = 10
"""Frames within which the slow model's token should not repeat; the first frame of a generation never counts."""
SECOND_TOP_P = 0.9


class FishState(State):
    """The talker's state per slot, in addition to keys and values."""

    def __init__(self, slots: int, config: FishConfig, dtype: torch.dtype, device: torch.device) -> None:
        self.next = buffer(slots, config.slow.dim, dtype=dtype, device=device)  # the next step's input
        self.recent = buffer(slots, WINDOW, dtype=torch.int64, device=device)  # first codes, for repetition
        self.first_step = buffer(slots, dtype=torch.int64, device=device)  # of this generation


class FishTalker(PromptedStack[FishConfig, FishPrompt, FishState]):
    state_type = FishState
    frame_dtype = torch.int64
    defaults = Sampling(temperature=0.8, top_k=30, top_p=0.8, repetition_penalty=1.0)
    """The defaults of upstream's server. As there, the repetition penalty has no effect."""

    def __init__(self, context: StageContext) -> None:
        config = read(context.config)
        self.net = parts.talker(config, read_tokens(checkpoint_of(context), config), context)
        super().__init__(config, context, [self.net.slow], self.net.embed, np.zeros(1 + config.books, np.int64))
        self.frame_shape = (config.books,)
        self._end = config.codes  # the last of the head's rows
        # The last one is for the second draw of the first code.
        self._gumbel = Gumbel([config.codes + 1, *[config.codes] * (config.books - 1), config.codes + 1], self._device)

    # --- the prompt ---

    def ready(self, prompts: Sequence[FishPrompt], rows: Rows, state: FishState) -> None:
        spoken, slots = self.some(prompts, rows.slots, lambda prompt: len(prompt.last))
        if not spoken:
            return
        state.next[slots] = self.net.embed(self._upload(np.concatenate([prompt.last for prompt in spoken])))
        state.recent[slots] = torch.full_like(state.recent[slots], NOTHING)
        state.first_step[slots] = rows.table.step[slots]

    # --- the step ---

    def step(self, rows: Rows, state: FishState) -> Step:
        slots = rows.slots
        hidden = self.hidden(state.next[slots][:, None], rows, rows.positions[:, None])[:, 0]
        noise = self._gumbel(rows.seeds, rows.steps)
        settings = self._settings(rows)
        count = rows.steps - state.first_step[slots]  # frames of this generation so far
        token = self._first(self.net.logits(hidden), settings, noise, count, rows, state)
        stopped = token == self._end
        first = token.masked_fill(stopped, 0)  # the end is no code: it must not be looked up as one
        frame = self.net.fast.generate(hidden, first, self._choose(settings, noise))
        following = self.net.embed_frame(frame)
        place = count % WINDOW
        state.recent[slots, place] = first.masked_fill(count <= 0, NOTHING)
        state.next[slots] = following
        return Step(frame, ~stopped, stopped)

    def _settings(self, rows: Rows) -> Settings:
        return Settings.of(rows, TopP.BELOW)

    def _first(
        self, logits: Tensor, settings: Settings, noise: tuple[Noise, ...], count: Tensor, rows: Rows, state: FishState
    ) -> Tensor:
        """Draws the slow model's token. A token that repeats is drawn again, with settings that vary more."""
        warm = (settings.temperature > 0).to(settings.temperature.dtype)  # a greedy request stays greedy
        second = Settings(warm, settings.top_k, torch.full_like(settings.top_p, SECOND_TOP_P), TopP.BELOW)
        limit = (count > 0).to(torch.int64)
        again = Repetition(state.recent, rows.slots, limit, second, noise[-1])
        return draw(logits, settings, noise[0], repetition=again)

    def _choose(self, settings: Settings, noise: tuple[Noise, ...]) -> Callable[[int, Tensor], Tensor]:
        return lambda book, logits: draw(logits, settings, noise[book])
