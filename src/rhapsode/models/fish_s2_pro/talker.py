"""The talker: one frame per step, a token of the slow model and then the codes of the fast one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.prompts import PromptRuns, content_of
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.device.upload import upload
from rhapsode.models.base import Span, StageContext, Step, Traits
from rhapsode.models.fish_s2_pro import parts
from rhapsode.models.fish_s2_pro.config import FishConfig, read
from rhapsode.models.fish_s2_pro.prompt import FishPrompt
from rhapsode.models.fish_s2_pro.tokenizer import read_tokens
from rhapsode.models.parts import checkpoint_of
from rhapsode.nn.attention import PagedAttention
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


class FishTalker:
    frame_dtype = torch.int64
    defaults = Sampling(temperature=0.8, top_k=30, top_p=0.8, repetition_penalty=1.0)
    """The defaults of upstream's server. As there, the repetition penalty has no effect."""

    def __init__(self, context: StageContext) -> None:
        self._config = config = read(context.config)
        self._device, self._dtype = torch.device(context.device), getattr(torch, context.dtype)
        self.net = parts.talker(config, read_tokens(checkpoint_of(context), config), context)
        self.frame_shape = (config.books,)
        self._end = config.codes  # the last of the head's rows
        # The last one is for the second draw of the first code.
        self._gumbel = Gumbel([config.codes + 1, *[config.codes] * (config.books - 1), config.codes + 1], self._device)
        self._prompts = PromptRuns(self._run_prompts, self._device)

    def traits(self) -> Traits:
        return Traits(kv=(self.net.slow.config.kv(),), prefill=self.prefill, capture=self.capture)

    def state(self, slots: int) -> FishState:
        return FishState(slots, self._config, self._dtype, self._device)

    # --- the prompt ---

    def prefill(self, prompts: Sequence[FishPrompt], spans: Sequence[Span], rows: Rows, state: FishState) -> None:
        blank = np.zeros(1 + self._config.books, np.int64)

        def inputs(shape: tuple[int, int]) -> tuple[NDArray[Any], ...]:
            return (content_of(prompts, spans, shape, blank),)

        self._prompts.prefill(prompts, spans, rows, inputs, lambda ended, slots: self._ready(ended, slots, rows, state))

    def _run_prompts(self, rows: Rows, where: Tensor, valid: Tensor, columns: Tensor) -> None:
        self.hidden(self.net.embed(columns), rows, where, valid)

    def capture(self, rows: Rows, most_positions: int) -> None:
        def blank(batch: int, length: int) -> tuple[NDArray[Any], ...]:
            return (np.zeros((batch, length, 1 + self._config.books), np.int64),)

        self._prompts.capture(rows, most_positions, blank)

    def _ready(self, prompts: Sequence[FishPrompt], slots: Tensor, rows: Rows, state: FishState) -> None:
        """Fills the state that the first step reads, for prompts that are prefilled."""
        spoken = [i for i, prompt in enumerate(prompts) if len(prompt.last)]
        if not spoken:
            return
        slots = slots[self._upload(np.array(spoken))]
        last = self._upload(np.concatenate([prompts[i].last for i in spoken]))
        state.next[slots] = self.net.embed(last)
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

    def hidden(self, x: Tensor, rows: Rows, positions: Tensor, valid: Tensor | None = None) -> Tensor:
        """Runs the slow model over `x [B, T, hidden]` at `positions [B, T]`; the result is normed."""
        backend = PagedAttention(rows.kv[0], rows, positions, valid)
        return self.net.slow(x, self.net.slow.rotary(positions, x.dtype), backend)

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

    def _upload(self, values: NDArray[Any]) -> Tensor:
        return upload(values, self._device)
