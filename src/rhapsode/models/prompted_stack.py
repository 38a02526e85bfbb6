"""What talkers over stacks of decoder layers have in common: keys and values, state, and how prompts are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.packed import Input
from rhapsode.device.prompts import PromptRuns, Spans, content_of
from rhapsode.device.slots import Rows
from rhapsode.device.state import State
from rhapsode.device.upload import upload
from rhapsode.models.base import Prompt, StageContext, Traits
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.decoder import DecoderStack

ConfigT = TypeVar("ConfigT")
PromptT = TypeVar("PromptT", bound=Prompt)
StateT = TypeVar("StateT", bound=State)


class PromptedStack(Generic[ConfigT, PromptT, StateT]):
    """A talker without its step. A family's talker adds `step`, and `ready`, which prepares slots for the first one."""

    state_type: Callable[[int, ConfigT, torch.dtype, torch.device], StateT]

    def __init__(
        self,
        config: ConfigT,
        context: StageContext,
        stacks: Sequence[DecoderStack],
        embed: Callable[..., Tensor],
        blank: NDArray[Any],
    ) -> None:
        """`embed` maps what `inputs` returns to the first stack's inputs; `blank` is a row of content, for padding."""
        self._config = config
        self._device, self._dtype = torch.device(context.device), getattr(torch, context.dtype)
        self._stacks, self._embed_prompt, self._blank = stacks, embed, blank
        self._prompts = PromptRuns(self.run_prompts, self._device)

    def traits(self) -> Traits:
        kv = tuple(stack.config.kv() for stack in self._stacks)
        return Traits(kv=kv, prefill=self.prefill, capture=self.capture)

    def state(self, slots: int) -> StateT:
        return type(self).state_type(slots, self._config, self._dtype, self._device)

    def prefill(self, prompts: Sequence[PromptT], spans: Spans, rows: Rows, state: StateT) -> list[bool] | None:
        self.run_pieces(prompts, spans, rows, state, lambda shape: self.inputs(prompts, spans, shape))
        return None

    def capture(self, rows: Rows, most_positions: int) -> None:
        self._prompts.capture(rows, most_positions, self.blank_inputs)

    def hidden(self, x: Tensor, rows: Rows, positions: Tensor, valid: Tensor | None = None) -> Tensor:
        """Runs the first stack over `x [B, T, hidden]` at `positions [B, T]`; the result is normed."""
        stack, backend = self._stacks[0], PagedAttention(rows.kv[0], rows, positions, valid)
        return stack(x, stack.rotary(positions, x.dtype), backend)

    # --- what a family may replace ---

    def ready(self, prompts: Sequence[PromptT], rows: Rows, state: StateT) -> None:
        """Fills the state that the first step reads, for prompts that are prefilled."""
        raise NotImplementedError

    def inputs(self, prompts: Sequence[PromptT], spans: Spans, shape: tuple[int, int]) -> tuple[Input, ...]:
        """Returns the inputs of a launch of this many rows and positions."""
        return (content_of(prompts, spans, shape, self._blank),)

    def blank_inputs(self, batch: int, length: int) -> tuple[Input, ...]:
        """Returns inputs of padding alone, to capture a launch."""
        return (np.tile(self._blank, (batch, length, 1)),)

    def run_prompts(self, rows: Rows, where: Tensor, valid: Tensor, *inputs: Tensor) -> None:
        """Runs pieces of prompts at the positions `where [B, T]`; those that are not `valid [B, T]` are padding."""
        self.hidden(self._embed_prompt(*inputs), rows, where, valid)

    # --- what a family may use ---

    def run_pieces(
        self,
        prompts: Sequence[PromptT],
        spans: Spans,
        rows: Rows,
        state: StateT,
        inputs: Callable[[tuple[int, int]], tuple[Input, ...]],
        runs: Spans | None = None,
    ) -> None:
        """Runs a piece of each prompt (see `PromptRuns.run`), and makes the slots of prompts that end here ready."""
        ended, of_ended = self._prompts.run(prompts, spans, rows, inputs, runs)
        if ended:
            self.ready(ended, of_ended, state)

    def some(
        self, prompts: Sequence[PromptT], slots: Tensor, which: Callable[[PromptT], object]
    ) -> tuple[list[PromptT], Tensor]:
        """Returns those of these prompts that `which` is true for, and their slots."""
        index = [i for i, prompt in enumerate(prompts) if which(prompt)]
        return [prompts[i] for i in index], slots[self._upload(np.array(index, np.int64))] if index else slots[:0]

    def _upload(self, values: NDArray[Any]) -> Tensor:
        return upload(values, self._device)
