"""The talker: one speech token per step, drawn by repetition-aware sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import StageContext, Step, Traits
from rhapsode.models.cosyvoice3 import parts
from rhapsode.models.cosyvoice3.config import CosyConfig, read
from rhapsode.models.cosyvoice3.prompt import NEVER, CosyPrompt
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.prompted_stack import PromptedStack
from rhapsode.nn.kernels.sampling import NOTHING, Repetition, Settings, TopP
from rhapsode.nn.sampling import Gumbel, draw
from rhapsode.types import Sampling

SILENT_TOKENS = (1, 2, 28, 29, 55, 248, 494, 2241, 2242, 2322, 2323)
MOST_SILENT = 5
"""How many of several consecutive silent tokens are spoken; the language model sees all of them."""

FREE, NO_END, ONLY_FILL, NO_START = range(4)
"""Which special ids may be drawn: all (each of them ends speech); none; the fill token; all but the start."""


class CosyState(State):
    """The talker's state per slot, in addition to keys and values."""

    def __init__(self, slots: int, config: CosyConfig, dtype: torch.dtype, device: torch.device) -> None:
        def ints(*shape: int) -> Tensor:
            return buffer(slots, *shape, dtype=torch.int64, device=device)

        self.next = buffer(slots, config.layers.hidden_size, dtype=dtype, device=device)  # the next step's input
        self.recent = ints(config.sampling.win_size)  # tokens of the last steps, for repetition
        self.silent = ints()  # consecutive silent tokens so far
        self.first_step = ints()  # of this prompt
        self.fill_after = ints()  # steps of this prompt, or NEVER
        self.least = ints()  # steps of this prompt before which the rule is `early`
        self.early = ints()
        self.late = ints()
        self.ended = buffer(slots, dtype=torch.bool, device=device)  # a step after the end must not count


class CosyTalker(PromptedStack[CosyConfig, CosyPrompt, CosyState]):
    state_type = CosyState
    frame_shape = (1,)
    frame_dtype = torch.int64

    def __init__(self, context: StageContext) -> None:
        config = read(context.config, checkpoint_of(context))
        self.net = parts.talker(config, context)
        super().__init__(config, context, [self.net.body], self._embed_ids, np.zeros(1, np.int64))
        sampling = config.sampling
        self.defaults = Sampling(temperature=1.0, top_k=sampling.top_k, top_p=sampling.top_p, repetition_penalty=1.0)
        self._gumbel = Gumbel([config.speech_rows] * 2, self._device)  # of the two draws
        ids = torch.arange(config.speech_rows, device=self._device)
        special = ids >= config.codes
        self._banned = torch.stack((special & False, special, special & (ids != config.fill), ids == config.sos))
        if context.random_weights:  # their speech would end at random; measurements need a fixed length
            self._banned[:] = special
        self._is_silent = torch.isin(ids, torch.tensor(SILENT_TOKENS, device=self._device))

    def traits(self) -> Traits:
        return replace(super().traits(), extend=self.extend)

    # --- the prompt ---

    def _embed_ids(self, ids: Tensor) -> Tensor:
        return self.net.embed(ids[..., 0])

    def ready(self, prompts: Sequence[CosyPrompt], rows: Rows, state: CosyState) -> None:
        fresh, slots = self.some(prompts, rows.slots, lambda prompt: not prompt.continues)
        if fresh:
            state.recent.index_fill_(0, slots, NOTHING)  # an assignment would wait for the GPU
        said, slots = self.some(prompts, rows.slots, lambda prompt: len(prompt.last))
        if not said:
            return
        state.next[slots] = self.net.embed(self._upload(np.concatenate([prompt.last for prompt in said]))[:, 0])
        state.first_step[slots] = rows.table.step[slots]
        settings = np.array([[p.fill_after, p.least_frames, *_rules(p)] for p in said], np.int64)
        columns = (state.fill_after, state.least, state.early, state.late)
        for column, values in zip(columns, self._upload(settings).unbind(1), strict=True):
            column[slots] = values
        state.ended.index_fill_(0, slots, False)

    def extend(self, tokens: Sequence[int], final: bool, rows: Rows, state: CosyState) -> None:
        """Does nothing: text that arrives later becomes a prompt that continues this one."""

    # --- the step ---

    def step(self, rows: Rows, state: CosyState) -> Step:
        slots, steps = rows.slots, rows.steps
        hidden = self.hidden(state.next[slots][:, None], rows, rows.positions[:, None])[:, 0]
        count = steps - state.first_step[slots]
        token = self._draw(self.net.logits(hidden), count, rows, state)
        fill_after = state.fill_after[slots]
        token = token.masked_fill((fill_after != NEVER) & (count >= fill_after), self._config.fill)
        stopped = token >= self._config.codes
        spoken = token.masked_fill(stopped, 0)  # an end is no speech token: no stage may look it up in a table
        before, ended = state.silent[slots], state.ended[slots]
        # The fill token is between two turns of speech, so it does not change the count.
        silent = torch.where(stopped, before, (before + 1) * self._is_silent[spoken])
        place = steps % state.recent.shape[1]
        state.recent[slots, place] = torch.where(ended, state.recent[slots, place], token)
        state.silent[slots] = torch.where(ended, before, silent)
        state.ended[slots] = ended | stopped
        state.next[slots] = self.net.embed_speech(spoken)
        return Step(spoken[:, None], ~stopped & (silent <= MOST_SILENT), stopped)

    def _draw(self, logits: Tensor, count: Tensor, rows: Rows, state: CosyState) -> Tensor:
        """Draws a token per row. A token that repeats too often is replaced by a draw from all other tokens."""
        slots = rows.slots
        rule = torch.where(count < state.least[slots], state.early[slots], state.late[slots])
        logits = logits.masked_fill(self._banned[rule], float("-inf"))
        first, second = self._gumbel(rows.seeds, rows.steps)
        temperature, top_k, top_p = rows.temperature, rows.top_k, rows.top_p
        every = Settings(temperature, torch.zeros_like(top_k), torch.ones_like(top_p), TopP.THROUGH)
        limit = (temperature > 0).to(torch.int64) * self._config.sampling.limit  # a greedy request stays greedy
        again = Repetition(state.recent, slots, limit, every, second, other=True)
        return draw(logits, Settings.of(rows, TopP.THROUGH), first, repetition=again)


def _rules(prompt: CosyPrompt) -> tuple[int, int]:
    """Returns which special ids may be drawn before and after the least length."""
    if prompt.fill_after != NEVER:
        return ONLY_FILL, ONLY_FILL
    return NO_END if prompt.enforced else NO_START, FREE
