"""A talker whose slots are made ready by captured launches, so that the device loop takes no time for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.row_writes import RowWrites
from rhapsode.device.slots import Rows
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.prompted_stack import ConfigT, PromptedStack, PromptT, StateT
from rhapsode.nn.decoder import DecoderStack


class WrittenStack(PromptedStack[ConfigT, PromptT, StateT]):
    """A `PromptedStack` that says what its first step needs as columns of arrays, with a row for each prompt."""

    write_first: Callable[..., None]
    """`write_first(state, slots, *columns)` fills the state that the first step reads."""

    def __init__(
        self,
        config: ConfigT,
        context: StageContext,
        stacks: Sequence[DecoderStack],
        embed: Callable[..., Tensor],
        blank: NDArray[Any],
    ) -> None:
        super().__init__(config, context, stacks, embed, blank)
        self._ready = RowWrites(self.write_first, self._device)

    def traits(self) -> Traits:
        return replace(super().traits(), capture_ready=self.capture_ready)

    def first_input(self, prompts: Sequence[PromptT], state: StateT) -> tuple[NDArray[Any], ...]:
        """Returns what the first step needs of these prompts, as columns for `write_first`."""
        raise NotImplementedError

    def blank_input(self, state: StateT) -> tuple[NDArray[Any], ...]:
        """Returns columns with one row, to capture launches: those of most prompts must have these shapes."""
        raise NotImplementedError

    def ready(self, prompts: Sequence[PromptT], rows: Rows, state: StateT) -> None:
        self._ready(state, rows.host_slots, *self.first_input(prompts, state))

    def capture_ready(self, rows: Rows, state: StateT) -> None:
        self._ready.capture(state, rows.host_slots, *self.blank_input(state))
