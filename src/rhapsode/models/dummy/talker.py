"""A talker whose frames depend on everything they should: prompt, text, seed, step, and its own past frames.

All arithmetic is on small whole numbers, so results are exact on every device and in every batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from rhapsode.device.kv import KVLayout
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import Span, StageContext, Step, Traits
from rhapsode.models.dummy.prompt import MAX_TEXT, VOCAB, DummyPrompt
from rhapsode.nn.philox import uniform
from rhapsode.types import Sampling

CODEBOOKS, CODES = 4, 64


class DummyState(State):
    def __init__(self, slots: int, device: torch.device) -> None:
        self.text = buffer(slots, MAX_TEXT, dtype=torch.int64, device=device)
        self.text_length = buffer(slots, dtype=torch.int64, device=device)
        self.closed = buffer(slots, dtype=torch.bool, device=device)
        self.endless = buffer(slots, dtype=torch.bool, device=device)


class DummyTalker:
    frame_shape = (CODEBOOKS,)
    frame_dtype = torch.int64
    defaults = Sampling(temperature=1.0, top_k=16, top_p=1.0, repetition_penalty=1.0)

    def __init__(self, context: StageContext) -> None:
        self._device = torch.device(context.device)
        self._sleep_s: float = context.settings.frame_sleep_s

    def traits(self) -> Traits:
        return Traits(kv=(KVLayout(layers=1, heads=1, head_dim=1),), prefill=self.prefill, extend=self.extend)

    def state(self, slots: int) -> DummyState:
        return DummyState(slots, self._device)

    def prefill(self, prompts: Sequence[DummyPrompt], spans: Sequence[Span], rows: Rows, state: DummyState) -> None:
        for i, (prompt, (start, stop, base)) in enumerate(zip(prompts, spans, strict=True)):
            slots = rows.slots[i : i + 1]
            if start < stop:
                assert prompt.content is not None
                tokens = torch.from_numpy(prompt.content[start:stop, 0]).to(self._device)
                where = torch.arange(base + start, base + stop, device=self._device)[None]
                self._remember(Rows(slots, rows.table, rows.kv), where, tokens[None])
            if stop == prompt.length:
                state.endless[slots] = prompt.endless
                state.text_length[slots] = rows.steps[i]  # a step takes the token of its own number
                self._append(prompt.tokens, slots, state)
                state.closed[slots] = prompt.closed

    def extend(self, tokens: Sequence[int], final: bool, rows: Rows, state: DummyState) -> None:
        self._append(tokens, rows.slots, state)
        state.closed[rows.slots] = final

    def step(self, rows: Rows, state: DummyState) -> Step:
        if self._sleep_s:
            time.sleep(self._sleep_s)
        slots, steps = rows.slots, rows.steps
        context = self._recall(rows)
        token = state.text[slots, steps.clamp(max=MAX_TEXT - 1)]
        base = context * 31 + token * 7 + steps
        drawn = self._draw(rows, base)
        self._remember(rows, rows.positions[:, None], (drawn.sum(1, keepdim=True) + token[:, None]) % VOCAB)
        past_text = steps >= state.text_length[slots]
        stopped = past_text & state.closed[slots] & ~state.endless[slots]
        return Step(drawn, ~past_text | state.endless[slots], stopped)

    def _draw(self, rows: Rows, base: Tensor) -> Tensor:
        spread = rows.top_k * (rows.temperature > 0)
        noise = uniform(rows.seeds, rows.steps, 0, CODEBOOKS) * spread[:, None]
        books = torch.arange(1, CODEBOOKS + 1, device=base.device)
        return (base[:, None] * books + noise.to(torch.int64)) % CODES

    def _remember(self, rows: Rows, positions: Tensor, tokens: Tensor) -> None:
        values = tokens.to(rows.kv[0].keys.dtype)[..., None, None]  # [B, T, 1, 1]
        rows.kv[0].write(0, rows.pages, positions, values, values)

    def _recall(self, rows: Rows) -> Tensor:
        """Returns a checksum of the tokens before this position; their order matters."""
        keys, _ = rows.kv[0].read(0, rows.pages)
        past = keys[:, :, 0, 0].to(torch.int64)  # [B, T]
        where = torch.arange(past.shape[1], device=past.device)[None]
        return (past * (where % 13 + 1) * (where < rows.positions[:, None])).sum(1) % VOCAB

    def _append(self, tokens: Sequence[int], slots: Tensor, state: DummyState) -> None:
        length = int(state.text_length[slots])
        new = torch.tensor(list(tokens), dtype=torch.int64, device=self._device)
        state.text[slots, length : length + len(new)] = new
        state.text_length[slots] += len(new)
