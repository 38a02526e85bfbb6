"""The talker: one speech token per step; guided, a request has two sequences in every launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.prompts import PromptRuns, content_of
from rhapsode.device.row_writes import RowWrites
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import Span, StageContext, Step, Traits
from rhapsode.models.chatterbox.config import ChatterboxConfig, read
from rhapsode.models.chatterbox.spec import ChatterboxSettings
from rhapsode.models.chatterbox.t3 import parts
from rhapsode.models.chatterbox.t3.prompt import T3Layout, T3Prompt
from rhapsode.models.chatterbox.t3.sizes import CODES, START, STOP
from rhapsode.models.parts import checkpoint_of
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.guided import GuidedAttention, guided, guided_layout
from rhapsode.nn.kernels.sampling import Rules, SamplingOrder, Settings
from rhapsode.nn.sampling import Gumbel, draw
from rhapsode.types import Sampling

SILENCE, SILENCES = 4299, 3
"""The token of silence, and how many of them Turbo's speech ends with."""
LEAST_TOKENS = 2
"""Speech that ends before it begins is none: upstream's Turbo goes on, too, and the others fail. And the last token of
the multilingual model is not heard."""


class T3State(State):
    """The talker's state per slot, in addition to keys and values."""

    def __init__(self, slots: int, config: ChatterboxConfig, dtype: torch.dtype, device: torch.device) -> None:
        def ints() -> Tensor:
            return buffer(slots, dtype=torch.int64, device=device)

        self.next = buffer(slots, config.t3.hidden, dtype=dtype, device=device)  # the next step's input
        self.history = buffer(slots, config.t3.speech_rows, dtype=torch.bool, device=device)  # for the penalty
        self.cfg_weight = buffer(slots, device=device)
        self.count = ints()  # steps of this prompt so far
        self.after_end = ints()  # steps since the end was drawn, that included


class ChatterboxTalker:
    frame_shape = (1,)
    frame_dtype = torch.int64

    def __init__(self, context: StageContext) -> None:
        settings: ChatterboxSettings = context.settings
        self._config = config = read(context.config, checkpoint_of(context), settings.t3)
        self._device, self._dtype = torch.device(context.device), getattr(torch, context.dtype)
        self.net = parts.talker(config, context)
        self.guided = settings.guidance and not config.kind.is_turbo
        self.defaults = defaults(config)
        self.order = SamplingOrder.PENALTY_LAST if config.kind.is_turbo else SamplingOrder.MIN_P_FIRST
        self._layout = T3Layout(config.t3)
        self._tail = SILENCES if config.kind.is_turbo else 0
        self._gumbel = Gumbel([config.t3.speech_rows], self._device)
        self._prompts = PromptRuns(self._run_prompts, self._device)
        self._ready = RowWrites(self._write_first, self._device)
        ids = torch.arange(config.t3.speech_rows, device=self._device)
        self._is_stop = ids == STOP
        self.banned = (ids >= CODES) & ~self._is_stop
        """Ids that are no speech. Upstream may draw them, and then drops them, or what was said before."""
        if context.random_weights:  # their speech would end at random; measurements need a fixed length
            self.banned |= self._is_stop

    def traits(self) -> Traits:
        layout = self.net.tfmr.config.kv()
        return Traits(
            kv=(guided_layout(layout) if self.guided else layout,),
            prefill=self.prefill,
            capture=self.capture,
            capture_ready=self.capture_ready,
        )

    def state(self, slots: int) -> T3State:
        return T3State(slots, self._config, self._dtype, self._device)

    # --- the prompt ---

    def prefill(self, prompts: Sequence[T3Prompt], spans: Sequence[Span], rows: Rows, state: T3State) -> None:
        def inputs(shape: tuple[int, int]) -> tuple[NDArray[Any], ...]:
            voices = self._no_voices(shape[0])
            for i, prompt in enumerate(prompts):
                voices[i] = prompt.voice_rows
            return content_of(prompts, spans, shape, self._layout.blank()), voices

        ended, of_ended = self._prompts.run(prompts, spans, rows, inputs)
        if ended:
            weights = np.array([prompt.cfg_weight for prompt in ended], np.float32)
            self._ready(state, of_ended.host_slots, weights)

    def _run_prompts(self, rows: Rows, where: Tensor, valid: Tensor, content: Tensor, voices: Tensor) -> None:
        x = self.net.embed(content, voices)
        if self.guided:
            x = torch.cat((x, self.net.embed_untold(content, x)))
        self.hidden(x, rows, where, valid)

    def capture(self, rows: Rows, most_positions: int) -> None:
        def blank(batch: int, length: int) -> tuple[NDArray[Any], ...]:
            return np.tile(self._layout.blank(), (batch, length, 1)), self._no_voices(batch)

        self._prompts.capture(rows, most_positions, blank)

    def _no_voices(self, batch: int) -> NDArray[np.float32]:
        sizes = self._config.t3
        return np.zeros((batch, sizes.voice_rows, sizes.hidden), np.float32)

    def _write_first(self, state: T3State, slots: Tensor, cfg_weight: Tensor) -> None:
        """Fills the state that the first step reads. A following prompt begins with an empty history, too."""
        state.cfg_weight[slots] = cfg_weight
        start = torch.full_like(slots, START)
        state.next[slots] = self.net.embed_speech(start, torch.zeros_like(start))
        state.history.index_fill_(0, slots, False)  # upstream's has the start, which cannot be drawn here
        state.count.index_fill_(0, slots, 0)
        state.after_end.index_fill_(0, slots, 0)

    def capture_ready(self, rows: Rows, state: T3State) -> None:
        self._ready.capture(state, rows.host_slots, np.zeros(1, np.float32))

    # --- the step ---

    def step(self, rows: Rows, state: T3State) -> Step:
        slots = rows.slots
        count, after_end = state.count[slots], state.after_end[slots]
        token = self._draw(self.scores(rows, state), count, rows, state)
        ended = (token == STOP) | (after_end > 0)
        after_end = (after_end + 1) * ended
        token = token.masked_fill(ended, SILENCE)  # the end is no speech token: no stage may look it up in a table
        state.history[slots, token] = torch.ones_like(ended)  # a Python value would be copied from the host
        state.next[slots] = self.net.embed_speech(token, count + 1)
        state.count[slots], state.after_end[slots] = count + 1, after_end
        if self._tail:
            return Step(token[:, None], torch.ones_like(ended), after_end >= self._tail)
        return Step(token[:, None], ~ended, ended)

    def scores(self, rows: Rows, state: T3State) -> Tensor:
        """Returns the scores of the next token, `[B, speech rows]`; guided, with both sequences taken into account."""
        slots, x = rows.slots, state.next[rows.slots]
        x = torch.cat((x, x)) if self.guided else x
        scores = self.net.logits(self.hidden(x[:, None], rows, rows.positions[:, None])[:, 0])
        return guided(scores, state.cfg_weight[slots]) if self.guided else scores

    def hidden(self, x: Tensor, rows: Rows, positions: Tensor, valid: Tensor | None = None) -> Tensor:
        """Runs the layers at `positions [B, T]` over `x [B, T, hidden]`, or over twice as many rows if guided."""
        backend = (GuidedAttention if self.guided else PagedAttention)(rows.kv[0], rows, positions, valid)
        positions = torch.cat((positions, positions)) if self.guided else positions
        return self.net.tfmr(self.net.at(x, positions), self.net.tfmr.rotary(positions, x.dtype), backend)

    def _draw(self, scores: Tensor, count: Tensor, rows: Rows, state: T3State) -> Tensor:
        settings = Settings.of(rows, order=self.order)
        noise = self._gumbel(rows.seeds, rows.steps)[0]
        return draw(scores, settings, noise, settings.partial_k(), self.rules(count, rows, state))

    def rules(self, count: Tensor, rows: Rows, state: T3State) -> Rules:
        """Returns the rules of the tokens whose number in this prompt is `count [B]`."""
        return Rules(
            state.history,
            rows.slots,
            rows.repetition_penalty,
            banned=self.banned,
            late=self._is_stop,
            steps=count,
            least_steps=LEAST_TOKENS,
        )


def defaults(config: ChatterboxConfig) -> Sampling:
    """Returns upstream's sampling parameters of a variant."""
    if config.kind.is_turbo:
        return Sampling(temperature=0.8, top_k=1000, top_p=0.95, repetition_penalty=1.2)
    return Sampling(temperature=0.8, top_k=0, top_p=1.0, min_p=0.05, repetition_penalty=1.2)
