"""What all stages on a device share: the turn, from messages to results, and the parts that it works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from rhapsode.config import Deployment
from rhapsode.device import compilations
from rhapsode.device.memory import SlotMemory
from rhapsode.engine.bell import Bell
from rhapsode.engine.isolation import failure, isolate
from rhapsode.engine.launches import Launch, Launches
from rhapsode.engine.row import PromptRow
from rhapsode.engine.seats import Seats
from rhapsode.engine.stage import Message, TurnStage
from rhapsode.models.base import traits_of
from rhapsode.waiting import wake_ups

MESSAGES_PER_TURN = 128
"""The most messages that are handled in one turn, while the other stages of the device wait."""

Row = TypeVar("Row", bound=PromptRow)


class DeviceStage(TurnStage, Generic[Row]):
    """Launches its worker for many requests at once, and handles the results when they arrive.

    `turn` is all of it. A kind of stage says what its steps do; nothing else here is overridden.
    """

    def __init__(
        self,
        name: str,
        bell: Bell,
        worker: Any,
        deployment: Deployment,
        memory: SlotMemory,
        stream: torch.cuda.Stream | None = None,
    ) -> None:
        super().__init__(name, bell)
        if memory.device.type == "cuda":
            compilations.watch()
        self.works_inline = memory.device.type != "cuda"
        self._worker, self._traits = worker, traits_of(worker)
        self._deployment = deployment
        self._memory = memory
        self._cuda_stream = stream
        self._seats: Seats[Row] = Seats(deployment.limits.slots)
        self._launches = Launches(self._seats)

    @torch.inference_mode()
    def turn(self) -> bool:
        with self._on_stream():
            for message in self.inbox.drain(MESSAGES_PER_TURN):
                self._take(message)
            prefilled = self._run_prompts()
            launched = self._launch()
            with wake_ups.held():
                landed = self._land()
            return prefilled or launched or landed or len(self.inbox) > 0

    # --- the steps of a turn ---

    def _take(self, message: Message) -> None:
        """Handles a message of another stage or of the pipeline."""
        raise NotImplementedError

    def _run_prompts(self) -> bool:
        """Runs prompts of requests that join; returns whether there was anything to do."""
        raise NotImplementedError

    def _launch(self) -> bool:
        """Launches what can be launched now; returns whether anything moved."""
        raise NotImplementedError

    def _land(self) -> bool:
        """Handles the results that have arrived; returns whether anything moved."""
        raise NotImplementedError

    def _landed(self, launch: Launch, current: NDArray[np.bool_], values: NDArray[Any]) -> None:
        """Handles the results of one launch. `current`: for each row, whether its request is still here."""
        raise NotImplementedError

    def _leave(self, row: Row) -> None:
        """Takes a row off the device and frees what it holds. Calling it twice does no harm."""
        raise NotImplementedError

    # --- what they use ---

    def _on_stream(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self._cuda_stream) if self._cuda_stream else nullcontext()

    def _isolated(self, launch: Launch, run: Callable[[Launch], None]) -> None:
        """Runs a launch. Rows that the worker reports as bad fail, and the others run without them."""

        def run_rows(rows: Sequence[int]) -> None:
            run(Launch(launch.inputs[np.asarray(rows)], launch.statics))

        def fail(row: int, error: BaseException) -> None:
            self._fail(self._seats.at(int(launch.slots[row])), error)

        for _ in isolate(range(len(launch.inputs)), run_rows, fail):
            pass

    def _collect(self) -> bool:
        """Handles the results that have arrived, without waiting for others; returns whether any had."""
        collected = False
        for landed in self._launches.landed():
            self._landed(*landed)
            collected = True
        return collected

    def _fail(self, row: Row, error: BaseException) -> None:
        row.job.fail(failure(self.name, error))
        self._leave(row)

    def _capture_prompts(self) -> None:
        """On a GPU, captures the launches before a request's first frame: joining, its prompt, the first input."""
        if self.works_inline:
            return
        self._memory.capture()
        scratch = self._memory.rows(self._memory.slots([self._deployment.limits.slots]))
        if self._traits.capture is not None:
            self._traits.capture(scratch, self._deployment.memory.prefill_positions)
        if self._traits.capture_ready is not None:
            self._traits.capture_ready(scratch, self._memory.state)

    # --- what the loop asks ---

    def rest(self) -> None:
        if self.works_inline:  # with a GPU, launches in flight may still write to pages that are free
            self._memory.give_back()

    def oldest_launch(self) -> int | None:
        return self._launches.oldest


def soonest(*polls: float | None) -> float | None:
    """Returns the shortest of these waits; None if nothing is to be waited for."""
    return min((seconds for seconds in polls if seconds is not None), default=None)
