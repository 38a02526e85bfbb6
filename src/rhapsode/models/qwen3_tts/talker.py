"""The talker: one frame of sixteen codes per step, one text token per frame where the text is streamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.packed import Input
from rhapsode.device.prompts import Spans, content_of
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import StageContext, Step, Traits
from rhapsode.models.qwen3_tts import parts
from rhapsode.models.qwen3_tts.config import SUPPRESSED, QwenConfig, read
from rhapsode.models.qwen3_tts.prompt import SPEAKER, TEXT, QwenPrompt
from rhapsode.models.written_stack import WrittenStack
from rhapsode.nn.kernels.linear import fused_linear
from rhapsode.nn.kernels.sampling import NoiseCounters, Rules, Settings
from rhapsode.nn.sampling import Gumbel, Noise, draw, draw_embedded
from rhapsode.types import Sampling

LEAST_TOKENS = 2
"""How many first codes must be drawn before the end may be drawn."""
SHORT_TEXT = 256
"""Most prompts have no more text tokens than this: captured launches write them to their slots."""


class QwenState(State):
    """The talker's state per slot, in addition to keys and values."""

    def __init__(self, slots: int, config: QwenConfig, dtype: torch.dtype, device: torch.device) -> None:
        hidden, vocab = config.talker.hidden_size, config.talker.vocab_size
        # A frame takes at most one token, so no text needs more than there can be frames.
        self.text = buffer(slots, config.generation.max_new_tokens, dtype=torch.int32, device=device)
        self.text_count = buffer(slots, dtype=torch.int64, device=device)
        self.silent = buffer(slots, dtype=torch.bool, device=device)  # closed without any text
        self.previous = buffer(slots, hidden, dtype=dtype, device=device)  # the last frame, embedded
        self.begun = buffer(slots, hidden, dtype=dtype, device=device)  # hidden state of a first step run in prefill
        self.history = buffer(slots, vocab, dtype=torch.bool, device=device)  # first codes drawn so far
        self.temperature = buffer(slots, device=device)  # of the other codes
        self.top_k = buffer(slots, dtype=torch.int64, device=device)
        self.top_p = buffer(slots, device=device)


class QwenTalker(WrittenStack[QwenConfig, QwenPrompt, QwenState]):
    state_type = QwenState
    frame_dtype = torch.int64

    def __init__(self, context: StageContext) -> None:
        config = read(context.config, context.checkpoint)
        self.net = parts.talker(config, context)
        super().__init__(config, context, [self.net.model], self.embed, np.full(2 + config.groups, -1))
        self._begins = context.begins
        self.frame_shape = (config.groups,)
        self.defaults = defaults(config)
        vocab, codes = config.talker.vocab_size, config.predictor.vocab_size
        self._gumbel = Gumbel([vocab] + [codes] * (config.groups - 1), self._device)
        self._eos = config.tokens.codec_eos_token_id
        ids = torch.arange(vocab, device=self._device)
        self._is_eos = ids == self._eos  # [vocab]
        self._suppressed = (ids >= vocab - SUPPRESSED) & ~self._is_eos
        if context.random_weights:  # their speech would end at random; measurements need a fixed length
            self._suppressed |= self._is_eos

    def traits(self) -> Traits:
        return replace(super().traits(), first_step=self.first_step, extend=self.extend)

    # --- the prompt ---

    def prefill(self, prompts: Sequence[QwenPrompt], spans: Spans, rows: Rows, state: QwenState) -> list[bool]:
        """Runs the position of the first step, too, where it fits; returns for which prompts it does."""
        length = self._prompts.shape(spans)[1]
        begun = [self._has_room(prompt, span, length) for prompt, span in zip(prompts, spans, strict=True)]
        runs = [(start, stop + more, base) for (start, stop, base), more in zip(spans, begun, strict=True)]

        def inputs(shape: tuple[int, int]) -> tuple[NDArray[Any], ...]:
            content = content_of(prompts, spans, shape, self._blank)
            speakers = np.zeros((shape[0], self._config.speaker_width), np.float32)
            for i, (prompt, (start, stop, _), has_last) in enumerate(zip(prompts, runs, begun, strict=True)):
                if prompt.speaker is not None:
                    speakers[i] = prompt.speaker
                if has_last:
                    content[i, stop - start - 1] = prompt.last_row(self._config.text.tts_pad_token_id)
            return content, speakers

        self.run_pieces(prompts, spans, rows, state, inputs, runs)
        return begun

    def _has_room(self, prompt: QwenPrompt, span: tuple[int, int, int], length: int) -> bool:
        """Returns whether a launch of `length` has room for the first step's position, and its input is known."""
        start, stop, base = span
        is_whole, is_known = stop == prompt.length and not base, bool(prompt.text) or prompt.feed is None
        return self._begins and is_whole and is_known and start < stop < start + length

    def run_prompts(self, rows: Rows, where: Tensor, valid: Tensor, *inputs: Tensor) -> None:
        hidden = self.hidden(self.embed(*inputs), rows, where, valid)
        if self._begins:
            last = valid.sum(1, keepdim=True).clamp(min=1) - 1
            rows.state.begun[rows.slots] = torch.take_along_dim(hidden, last[..., None], dim=1)[:, 0]

    def blank_inputs(self, batch: int, length: int) -> tuple[Input, ...]:
        return *super().blank_inputs(batch, length), np.zeros((batch, self._config.speaker_width), np.float32)

    def embed(self, content: Tensor, speakers: Tensor) -> Tensor:
        """Embeds prompt positions: `content [B, T, 2 + G]` with `speakers [B, hidden]` to [B, T, hidden]."""
        x = self.net.text(content[..., TEXT]) + self.net.codec(content[..., 1:SPEAKER])
        here = content[..., SPEAKER] != 0
        return x + here[..., None] * speakers[:, None].to(x.dtype)

    def first_input(self, prompts: Sequence[QwenPrompt], state: QwenState) -> tuple[NDArray[Any], ...]:
        texts = [prompt.text[: state.text.shape[1]] for prompt in prompts]  # no step reads further
        counts = np.array([len(text) for text in texts])
        padded = np.zeros((len(texts), self._text_width(counts.max(), state)), np.int32)
        for i, text in enumerate(texts):
            padded[i, : len(text)] = text
        temperature, top_k, top_p = zip(*(prompt.subtalker for prompt in prompts), strict=True)
        integers = np.column_stack([counts, np.array(top_k, np.int64)])
        floats = np.column_stack([temperature, top_p]).astype(np.float32)
        return padded, integers, np.stack([prompt.last for prompt in prompts]), floats

    def _text_width(self, tokens: int, state: QwenState) -> int:
        most = state.text.shape[1]
        return min(SHORT_TEXT, most) if tokens <= SHORT_TEXT else most

    def write_first(
        self, state: QwenState, slots: Tensor, text: Tensor, integers: Tensor, last: Tensor, floats: Tensor
    ) -> None:
        state.text[slots, : text.shape[1]] = text
        state.previous[slots] = self.net.codec(last)
        state.text_count[slots], state.top_k[slots] = integers.unbind(1)
        state.temperature[slots], state.top_p[slots] = floats.unbind(1)

    def blank_input(self, state: QwenState) -> tuple[NDArray[Any], ...]:
        return (
            np.zeros((1, self._text_width(0, state)), np.int32),
            np.zeros((1, 2), np.int64),
            np.full((1, self._config.groups), -1, np.int64),
            np.zeros((1, 2), np.float32),
        )

    def extend(self, tokens: Sequence[int], final: bool, rows: Rows, state: QwenState) -> None:
        slots = rows.slots
        if final and not tokens:  # a feed that has had any text ends with a token that says so
            state.silent.index_fill_(0, slots, True)  # an assignment would wait for the GPU
            return
        count = state.text_count[slots]  # [1]
        most = state.text.shape[1]
        where = count + torch.arange(len(tokens), device=slots.device)
        state.text[slots, where.clamp(max=most - 1)] = self._upload(np.array(tokens, np.int32))
        state.text_count[slots] = (count + len(tokens)).clamp(max=most)

    # --- the step ---

    def step(self, rows: Rows, state: QwenState) -> Step:
        hidden = self.hidden(self.input(rows, state)[:, None], rows, rows.positions[:, None])[:, 0]
        return self._after_pass(hidden, rows, state)

    def first_step(self, rows: Rows, state: QwenState) -> Step:
        return self._after_pass(state.begun[rows.slots], rows, state)

    def _after_pass(self, hidden: Tensor, rows: Rows, state: QwenState) -> Step:
        """Returns the frame that follows from the backbone's output `hidden [B, hidden]`, and updates the state."""
        slots = rows.slots
        noise = self._noise(rows)
        first = self._first(self.logits(hidden), noise[0], rows, state)
        stopped = (first == self._eos) | state.silent[slots]
        first = first.masked_fill(stopped, 0)  # the end is no code: it must not be looked up as one
        embedded = self.net.model.codec_embedding(first)
        rest = self._rest(hidden, embedded, noise[1:], rows, state)
        frame = torch.cat((first[:, None], rest), dim=1)
        following = self.net.codec(frame)
        state.history[slots, first] = torch.ones_like(stopped)  # a Python value would be copied from the host
        state.previous[slots] = following
        return Step(frame, ~stopped, stopped)

    def input(self, rows: Rows, state: QwenState) -> Tensor:
        """Returns the sum of the last frame and the next text token, embedded: [B, hidden]."""
        slots, steps = rows.slots, rows.steps
        token = state.text[slots, steps.clamp(max=state.text.shape[1] - 1)]
        token = token.masked_fill(steps >= state.text_count[slots], self._config.text.tts_pad_token_id)
        return state.previous[slots] + torch.nn.functional.embedding(token, self.net.text_table)

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits of the first code, [B, vocabulary]."""
        return fused_linear(hidden, self.net.codec_head.weight)

    def _first(self, logits: Tensor, noise: Noise, rows: Rows, state: QwenState) -> Tensor:
        slots = rows.slots
        rules = Rules(
            state.history,
            slots,
            rows.repetition_penalty,
            banned=self._suppressed,
            late=self._is_eos,
            steps=rows.steps,
            least_steps=LEAST_TOKENS,
        )
        settings = Settings.of(rows)
        return draw(logits, settings, noise, settings.partial_k(), rules)

    def _noise(self, rows: Rows) -> tuple[Noise, ...]:
        if self.net.code_predictor.program is None:
            return self._gumbel(rows.seeds, rows.steps)
        return tuple(NoiseCounters(rows.seeds, rows.steps, book) for book in range(self._config.groups))

    def _rest(self, hidden: Tensor, first: Tensor, noise: tuple[Noise, ...], rows: Rows, state: QwenState) -> Tensor:
        """Draws the codes of a frame after the first."""
        slots = rows.slots
        # A greedy request draws all codes greedily.
        temperature = state.temperature[slots] * (rows.temperature > 0)
        settings = Settings(temperature, state.top_k[slots], state.top_p[slots])
        if isinstance(noise[0], NoiseCounters) and self.net.code_predictor.program is not None:
            return self.net.code_predictor.draw(hidden, first, settings, noise[0])
        partial_k = settings.partial_k()
        return self.net.code_predictor(
            hidden,
            first,
            lambda book, logits, table: draw_embedded(logits, settings, noise[book], table, partial_k),
        )


def defaults(config: QwenConfig) -> Sampling:
    """Returns the checkpoint's sampling parameters of the first code."""
    given = config.generation
    temperature = given.temperature if given.do_sample else 0.0
    return Sampling(temperature, given.top_k, given.top_p, given.repetition_penalty)
