"""What all stages on a device share: rows in slots, launches in flight, capture, isolation, clean-up."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.config import Deployment
from rhapsode.device import compilations
from rhapsode.device.landing import LANDING_S, Landing
from rhapsode.device.launcher import Launcher
from rhapsode.device.memory import SlotMemory
from rhapsode.device.pages import Key, page_keys
from rhapsode.engine.clock import clock_s
from rhapsode.engine.growth import PageGrowth
from rhapsode.engine.isolation import failure, isolate
from rhapsode.engine.prefill import Prefill
from rhapsode.engine.row import PromptRow
from rhapsode.engine.stage import Message, TurnStage, Work
from rhapsode.models.base import Prompt, traits_of
from rhapsode.types import Sampling
from rhapsode.waiting import wake_ups

MESSAGES_PER_TURN = 128
"""The most messages that are handled in one turn, while the other stages of the device wait."""
PREFILL_BLOCKS = 4
"""The most blocks of prompts in one prefill launch, for stages that take pages block by block."""

Ints = NDArray[np.int64]
Row = TypeVar("Row", bound=PromptRow)


@dataclass(frozen=True)
class Launch:
    """What one launch works on: `inputs` has a row for each request, `statics` are the sizes of its captured graph."""

    inputs: Ints  # [B, columns], the first is the slot
    statics: tuple[int, ...] = ()

    @property
    def slots(self) -> Ints:
        return self.inputs[:, 0]

    def ragged(self) -> tuple[Ints, Ints]:
        """Returns two numbers for each row: the frames its first block lacks, and the frames the launch works on."""
        if self.inputs.shape[1] == 1:
            return np.zeros_like(self.slots), np.full_like(self.slots, self.statics[0])
        return self.inputs[:, 1], self.inputs[:, 2]

    @property
    def frames(self) -> int:
        """How many frames the launch works on, in all rows together."""
        return len(self.inputs) * (self.statics[0] if self.statics else 1)


@dataclass(frozen=True)
class InFlight:
    """A launch whose results are being copied to the host, and the tenure of each slot when it was launched."""

    launch: Launch
    tenures: Ints
    values: Landing


class Prepared(NamedTuple):
    """A prompt with the keys of its pages, which are hashed in the sender's thread."""

    prompt: Prompt
    keys: list[Key]


class DeviceStage(TurnStage, Generic[Row]):
    """Launches its worker for many requests at once and handles the results when they arrive.

    A subclass says which rows are launched next (`_next`), what a launch does on the device (`_on_device`), and what
    follows from its results (`_landed`). Every slot has at most one row.
    """

    starts_together = False
    """Whether rows that are prefilled one after the other start together, on devices where the host runs ahead."""

    def __init__(
        self,
        name: str,
        worker: Any,
        deployment: Deployment,
        memory: SlotMemory,
        *,
        most_rows: int,
        columns: int = 1,
        defaults: Sampling | None = None,
        stream: torch.cuda.Stream | None = None,
        frame_s: float = 0.0,
    ) -> None:
        """`frame_s`: seconds of audio of one frame, if the pace of this stage is measured by its launches."""
        super().__init__(name)
        if memory.device.type == "cuda":
            compilations.watch()
        slots = deployment.limits.slots
        self._deployment = deployment
        self._worker, self._traits = worker, traits_of(worker)
        self._memory = memory
        self._cuda_stream = stream
        self.works_inline = memory.device.type != "cuda"
        self._timed_frame_s = frame_s if self.works_inline else 0.0
        self._prefill: Prefill[Row] | None = None
        self._growth: PageGrowth | None = None
        if self._traits.prefill is not None and memory.kv:
            sampling = defaults or Sampling(temperature=0.0, top_k=0, top_p=0.0, repetition_penalty=0.0)
            positions = deployment.memory.prefill_positions
            if self._traits.pages is not None:
                positions = PREFILL_BLOCKS * memory.page_size
                self._growth = PageGrowth(memory)
            together = self.starts_together and memory.device.type == "cuda" and not deployment.deterministic
            self._prefill = Prefill(
                self._traits.prefill,
                memory,
                sampling,
                positions,
                alone=deployment.deterministic,
                together=together,
                growth=self._growth,
                inline=self.works_inline,
            )
        fixed = most_rows if deployment.deterministic else None
        self._launcher = Launcher(self._on_device, slots, memory.device, fixed, columns)
        self._in_flight: deque[InFlight] = deque()
        self._landings = 0
        self._row_of: list[Row | None] = [None] * (slots + 1)
        self._live = np.zeros(slots + 1, np.bool_)
        """Whether a slot's row may be launched."""
        self._tenure = np.zeros(slots + 1, np.int64)
        """Counts the owners of each slot, so that the late result of an earlier owner is recognised."""

    # --- what a subclass says ---

    def _take(self, message: Message) -> None:
        raise NotImplementedError

    def _joined(self, rows: Sequence[Row]) -> None:
        """Called when the prompts of these rows have been run: from now on they can be given frames."""
        raise NotImplementedError

    def _next(self) -> Launch | None:
        raise NotImplementedError

    def _on_device(self, inputs: Tensor, *statics: int) -> Tensor:
        """Does the work of a launch on the device. With graphs, this is what is captured."""
        raise NotImplementedError

    def _launched(self, launch: Launch) -> None:
        raise NotImplementedError

    def _landed(self, launch: Launch, current: NDArray[np.bool_], values: NDArray[Any]) -> None:
        """Called when results of a launch have arrived. `current`: for each row, whether its request is still here."""
        raise NotImplementedError

    def _leave(self, row: Row) -> None:
        """Takes a row off the device and frees its pages. Calling it twice does no harm."""
        if self._row_of[row.slot] is row:
            self._vacate(row.slot)
        if self._prefill is not None:
            self._prefill.remove(row)
        self._free_pages(row)

    def _vacate(self, slot: int) -> None:
        """Makes a slot empty: nothing more is launched for its row, and results in flight are ignored."""
        self._live[slot] = False
        self._row_of[slot] = None
        self._tenure[slot] += 1

    def _free_pages(self, row: Row) -> None:
        self._memory.pool.free(row.pages)
        row.pages = []
        if self._growth is not None:
            self._growth.leave(row)

    def _shows_pace(self, launch: Launch) -> bool:
        """Returns whether the time of this launch says what its listeners cost when there are many."""
        return True

    # --- turns ---

    def oldest_launch(self) -> int | None:
        return self._landings if self._in_flight else None

    @property
    def poll_s(self) -> float | None:
        launches = self._in_flight or (self._prefill is not None and self._prefill.in_flight)
        return LANDING_S if launches else None

    def _on_stream(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self._cuda_stream) if self._cuda_stream else nullcontext()

    @torch.inference_mode()
    def turn(self) -> bool:
        with self._on_stream():
            for message in self.inbox.drain(MESSAGES_PER_TURN):
                self._take(message)
            prefilled = self._run_prefill()
            launched = self._launch_next()
            with wake_ups.held():
                collected = self._collect()
            return collected or launched or prefilled or len(self.inbox) > 0

    def rest(self) -> None:
        if self.works_inline:  # with a GPU, launches in flight may still write to pages that are free
            self._memory.give_back()

    def _run_prefill(self) -> bool:
        if self._prefill is None:
            return False
        ready, busy = self._prefill.turn(self._fail, speaking=bool(self._live.any()))
        if ready:
            self._joined(ready)
        return busy

    def _launch_next(self) -> bool:
        launch = self._next()
        if launch is None:
            return False

        def run(rows: Sequence[int]) -> None:
            self._run(Launch(launch.inputs[np.asarray(rows)], launch.statics))

        def fail(row: int, error: BaseException) -> None:
            self._fail(self._at(int(launch.slots[row])), error)

        for _ in isolate(range(len(launch.inputs)), run, fail):
            pass
        return True

    def _run(self, launch: Launch) -> None:
        started_s = clock_s()
        values = self._launcher(launch.inputs, *launch.statics)
        if self._timed_frame_s and self._shows_pace(launch):
            live = int(np.count_nonzero(self._live))
            self.pace.observe(live, clock_s() - started_s, launch.frames * self._timed_frame_s)
        self._launched(launch)
        self._in_flight.append(InFlight(launch, self._tenure[launch.slots], Landing(values)))

    def _collect(self) -> bool:
        """Handles the results that have arrived on the host, without waiting for others; returns whether any had."""
        collected = False
        while self._in_flight and self._in_flight[0].values.ready():
            arrived = self._in_flight.popleft()
            self._landings += 1
            current = self._live[arrived.launch.slots] & (self._tenure[arrived.launch.slots] == arrived.tenures)
            self._landed(arrived.launch, current, arrived.values.numpy())
            arrived.values.end()
            collected = True
        return collected

    # --- prompts ---

    def receive(self, work: Work) -> None:
        if self._prefill is not None and isinstance(work.payload, Prompt):
            keys = page_keys(work.payload.content, self._memory.page_size, *work.payload.brief)
            work = Work(work.job, Prepared(work.payload, keys), work.part)
        super().receive(work)

    def _capture_prefill(self) -> None:
        """On a GPU, captures the launches before a request's first frame: joining, its prompt, the first input."""
        if self._memory.device.type != "cuda":
            return
        self._memory.capture()
        scratch = self._memory.rows(self._memory.slots([self._deployment.limits.slots]))
        if self._traits.capture is not None:
            self._traits.capture(scratch, self._deployment.memory.prefill_positions)
        if self._traits.capture_ready is not None:
            self._traits.capture_ready(scratch, self._memory.state)

    # --- failures ---

    def _at(self, slot: int) -> Row:
        row = self._row_of[slot]
        assert row is not None
        return row

    def _fail(self, row: Row, error: BaseException) -> None:
        row.job.fail(failure(self.name, error))
        self._leave(row)
