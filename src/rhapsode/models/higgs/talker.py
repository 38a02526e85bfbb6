"""The talker: one row of codes per step, all codebooks drawn in one launch, and the frame that the row completes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import StageContext, Step, Traits
from rhapsode.models.higgs import parts
from rhapsode.models.higgs.config import HiggsConfig, read_v2, read_v3
from rhapsode.models.higgs.net import is_audio, pattern_of
from rhapsode.models.higgs.prompt import HiggsPrompt, audio_rows, text_columns
from rhapsode.models.higgs.spec import MOST_WINDOW
from rhapsode.models.prompted_stack import PromptedStack
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.delay import Delay
from rhapsode.nn.kernels.sampling import NOTHING, Repetition, Settings
from rhapsode.nn.sampling import Gumbel, Noise, draw, together
from rhapsode.types import Sampling


class HiggsState(State):
    """The talker's state per slot, in addition to keys and values."""

    def __init__(self, slots: int, hidden: int, delay: Delay, dtype: torch.dtype, device: torch.device) -> None:
        self.next = buffer(slots, hidden, dtype=dtype, device=device)  # the next step's input
        self.delay = delay.state(slots)
        # For repetition-aware sampling: the real codes of the last rows by codebook, in a ring of `window` rows.
        self.recent = buffer(slots, delay.pattern.books, MOST_WINDOW, dtype=torch.int64, device=device)
        self.window = buffer(slots, dtype=torch.int64, device=device)
        self.limit = buffer(slots, dtype=torch.int64, device=device)


class HiggsTalker(PromptedStack[HiggsConfig, HiggsPrompt, HiggsState]):
    """The talker of v2 and v3, as far as they agree. `repeats`: whether it has repetition-aware sampling."""

    frame_dtype = torch.int64
    defaults: Sampling
    repeats = False

    def __init__(self, config: HiggsConfig, context: StageContext) -> None:
        self.net = parts.talker(config, context)
        super().__init__(config, context, [self.net.body], self.net.embed, text_columns([0], config.books)[0])
        self.pattern = pattern_of(config)
        self.frame_shape = (config.books,)
        self._delay = Delay(self.pattern, self._device)
        # Second draws have noise of their own.
        draws = config.books * (2 if self.repeats else 1)
        self._gumbel = Gumbel([self.pattern.vocabulary] * draws, self._device)

    def traits(self) -> Traits:
        return replace(super().traits(), extend=self.extend)

    def state(self, slots: int) -> HiggsState:
        one, zero = torch.ones(slots + 1, device=self._device), torch.zeros(slots + 1, device=self._device)
        self._unfiltered = Settings(one, zero.to(torch.int64), one)
        return HiggsState(slots, self._config.body.hidden_size, self._delay, self._dtype, self._device)

    # --- the prompt ---

    def run_prompts(self, rows: Rows, where: Tensor, valid: Tensor, *inputs: Tensor) -> None:
        (columns,) = inputs
        backend = PagedAttention(rows.kv[0], rows, where, valid)
        self.net.run(self.net.embed(columns), where, backend, is_audio(columns))

    def ready(self, prompts: Sequence[HiggsPrompt], rows: Rows, state: HiggsState) -> None:
        chosen, slots = self.some(prompts, rows.slots, lambda prompt: len(prompt.last))
        if not chosen:
            return
        state.next[slots] = self.net.embed(self._upload(np.concatenate([prompt.last for prompt in chosen])))
        self._delay.begin(slots, state.delay)
        if self.repeats:
            windows = np.array([(max(1, p.repetition.rows), p.repetition.limit) for p in chosen], np.int64)
            state.window[slots], state.limit[slots] = self._upload(windows).unbind(1)
            state.recent[slots] = self._upload(np.stack([self._recent(prompt) for prompt in chosen]))

    def _recent(self, prompt: HiggsPrompt) -> NDArray[np.int64]:
        """Returns the last audio rows of a prompt in the layout of the ring: rows of references count, too."""
        recent = np.full((self._config.books, MOST_WINDOW), NOTHING, np.int64)
        window = max(1, prompt.repetition.rows)
        columns = np.concatenate([np.asarray(prompt.content, np.int64), prompt.last])
        rows = audio_rows(columns)[-window:]
        place = np.arange(-len(rows), 0) % window
        recent[:, place] = np.where(rows < self._config.codes, rows, NOTHING).T
        return recent

    def extend(self, tokens: Sequence[int], final: bool, rows: Rows, state: HiggsState) -> None:
        """Does nothing: text that arrives later becomes a prompt of its own."""

    # --- the step ---

    def step(self, rows: Rows, state: HiggsState) -> Step:
        slots, count = rows.slots, state.delay.count[rows.slots]
        positions = rows.positions[:, None]
        hidden = self.net.run(state.next[slots][:, None], positions, PagedAttention(rows.kv[0], rows, positions))
        drawn = self._draw(self.net.logits(hidden[:, 0]), rows, state)
        made = self._delay.advance(drawn.view(len(slots), -1), slots, state.delay)
        state.next[slots] = self.net.embed_row(made.row)
        if self.repeats:
            heard = made.row.masked_fill(made.row >= self._config.codes, NOTHING)
            state.recent[slots, :, count % state.window[slots].clamp(min=1)] = heard
        return Step(made.frame, made.emitted, made.stopped)

    def _draw(self, logits: Tensor, rows: Rows, state: HiggsState) -> Tensor:
        """Draws a code of every codebook, `[B * books]`, whether or not the pattern forces it."""
        slots, books = rows.slots, self._config.books
        settings = Settings.of(rows)
        noise = self._gumbel(rows.seeds, rows.steps)
        again = self._again(together(noise[books:]), slots, state) if self.repeats else None
        return draw(logits, settings, together(noise[:books]), settings.partial_k(), repetition=again)

    def _again(self, noise: Noise, slots: Tensor, state: HiggsState) -> Repetition:
        """Returns the rule of second draws: from all codes at temperature 1, even for a greedy request, as upstream."""
        rows, all_codes = len(slots), self._unfiltered
        second = Settings(all_codes.temperature[:rows], all_codes.top_k[:rows], all_codes.top_p[:rows])
        return Repetition(state.recent.flatten(0, 1), slots, state.limit[slots], second, noise, raw=True)


class HiggsV2Talker(HiggsTalker):
    defaults = Sampling(temperature=1.0, top_k=50, top_p=0.95, repetition_penalty=1.0)
    """The defaults of upstream's script. As there, the repetition penalty has no effect."""
    repeats = True

    def __init__(self, context: StageContext) -> None:
        super().__init__(read_v2(context.config), context)


class HiggsV3Talker(HiggsTalker):
    defaults = Sampling(temperature=0.8, top_k=30, top_p=0.8, repetition_penalty=1.0)
    """The defaults of the speech endpoint in other servers of this model. The repetition penalty has no effect."""

    def __init__(self, context: StageContext) -> None:
        super().__init__(read_v3(context.config), context)
