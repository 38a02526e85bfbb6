"""The autoregressive loop: continuous batching at frame granularity over slots and paged KV."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.config import Deployment
from rhapsode.engine.frames import FrameStream
from rhapsode.engine.graphs import Launcher, batch_buckets
from rhapsode.engine.job import Job
from rhapsode.engine.pages import Key, PagePool, page_keys
from rhapsode.engine.stage import Drop, Text, TurnStage, Work, failure, isolate
from rhapsode.engine.transfer import Landing, lag_of
from rhapsode.errors import InvalidRequest, Runaway
from rhapsode.models.base import Prompt, Talker
from rhapsode.nn.kv import PagedKV
from rhapsode.nn.slots import Rows, SlotRow, SlotTable
from rhapsode.types import FinishReason

EMITTED, STOPPED = 1, 2
UNLIMITED = np.iinfo(np.int64).max


@dataclass(eq=False)
class _Row:
    """A request in this stage."""

    job: Job
    prompt: Prompt
    limit: int
    keys: list[Key]
    pages: list[int] = field(default_factory=list)
    filled: int = 0
    """Prompt positions whose keys and values are there."""

    @property
    def slot(self) -> int:
        return self.job.slot


@dataclass(frozen=True)
class _Launch:
    """A step under way."""

    slots: NDArray[np.int64]
    tenures: NDArray[np.int64]
    flags: Landing


class FrameStage(TurnStage):
    """Emits one frame per turn for every request that can go on."""

    def __init__(
        self, name: str, talker: Talker, deployment: Deployment, device: torch.device, dtype: torch.dtype
    ) -> None:
        super().__init__(name)
        slots = deployment.limits.max_concurrency
        memory = deployment.memory
        self._talker = talker
        self._deployment = deployment
        self._device = device
        self._lag = lag_of(device)
        self._page_size = memory.page_size
        pages_per_slot = -(-deployment.limits.max_positions // memory.page_size)
        self.pool = PagePool(memory.pages or slots * pages_per_slot)
        self.streams: list[FrameStream] = []
        self._table = SlotTable(slots, pages_per_slot, device)
        self._kv = tuple(PagedKV(lay, self.pool.total, memory.page_size, dtype, device) for lay in talker.kv())
        self._state = talker.state(slots)
        self._launcher = Launcher(self._step_on_device, slots, device)
        self._rows: dict[str, _Row] = {}
        self._row_of: list[_Row | None] = [None] * (slots + 1)
        self._waiting: deque[_Row] = deque()
        self._filling: list[_Row] = []
        self._texts: dict[str, list[Text]] = {}
        self._launches: deque[_Launch] = deque()
        # By slot: what the host decides with, as vectors.
        self._running = np.zeros(slots + 1, np.bool_)
        self._launched = np.zeros(slots + 1, np.int64)
        self._done = np.zeros(slots + 1, np.int64)
        self._limit = np.zeros(slots + 1, np.int64)
        self._allowed = np.zeros(slots + 1, np.int64)
        self._tenure = np.zeros(slots + 1, np.int64)  # counts a slot's owners: late results of an earlier one show
        self.steps = 0

    def frame_stream(self, slots: int, capacity: int) -> FrameStream:
        """A new edge for this stage's frames."""
        talker = self._talker
        stream = FrameStream(slots, capacity, talker.frame_shape, talker.frame_dtype, self._device)
        self.streams.append(stream)
        return stream

    def start(self) -> None:
        if self._deployment.graphs:
            with torch.inference_mode():
                self._launcher.capture(batch_buckets(self._deployment.limits.max_concurrency))

    def stop(self) -> None:
        for job in self.jobs():
            self._drop(job)

    def jobs(self) -> list[Job]:
        return [row.job for row in self._rows.values()]

    @torch.inference_mode()
    def turn(self) -> bool:
        for message in self.inbox.drain():
            match message:
                case Work(job, prompt) if not job.over:
                    self._enter(job, prompt)
                case Text(job) if not job.over:
                    self._texts.setdefault(job.id, []).append(message)
                case Drop(job):
                    self._drop(job)
        self._reserve()
        busy = self._prefill()
        self._extend()
        return self._step() or busy

    # --- joining ---

    def _enter(self, job: Job, prompt: Prompt) -> None:
        limits = self._deployment.limits
        limit = min(prompt.max_frames, job.request.max_frames or prompt.max_frames)
        room = min(limits.max_positions, self.pool.total * self._page_size) - prompt.length
        if room < 1:
            job.fail(InvalidRequest(f"the prompt needs {prompt.length} positions; {limits.max_positions} fit."))
            return
        row = _Row(job, prompt, min(limit, room), page_keys(prompt.content, self._page_size))
        self._rows[job.id] = row
        self._waiting.append(row)

    def _reserve(self) -> None:
        """Give pages to waiting requests, in their order, for all they can ever need: nobody runs out midway."""
        joining: list[_Row] = []
        while self._waiting:
            row = self._waiting[0]
            count = -(-(row.prompt.length + row.limit) // self._page_size)
            reserved = self.pool.reserve(count, row.keys)
            if reserved is None:
                break
            self._waiting.popleft()
            row.pages, shared = reserved
            row.filled = shared * self._page_size
            joining.append(row)
        if joining:
            self._table.join([self._slot_row(row) for row in joining])
            self._state.clear(torch.tensor([row.slot for row in joining], device=self._device))
            self._filling += joining

    def _slot_row(self, row: _Row) -> SlotRow:
        sampling = row.job.request.sampling.over(self._talker.defaults)
        values = vars(sampling)
        return SlotRow(row.slot, row.job.seed, row.pages, **values)

    def _prefill(self) -> bool:
        batch: list[_Row] = []
        budget = self._deployment.memory.prefill_positions
        for row in self._filling:
            if budget <= 0:
                break
            budget -= max(1, row.prompt.length - row.filled)
            batch.append(row)
        for rows, stops in isolate(batch, self._launch_prefill, self._fail):
            for row, stop in zip(rows, stops, strict=True):
                self._filled(row, stop)
        return bool(batch)

    def _launch_prefill(self, rows: Sequence[_Row]) -> list[int]:
        budget = self._deployment.memory.prefill_positions
        spans: list[tuple[int, int]] = []
        for row in rows:
            stop = min(row.prompt.length, row.filled + budget)
            budget -= stop - row.filled
            spans.append((row.filled, stop))
        slots = torch.tensor([row.slot for row in rows], device=self._device)
        prompts = [row.prompt for row in rows]
        self._talker.prefill(prompts, spans, Rows(slots, self._table, self._kv), self._state)
        return [stop for _, stop in spans]

    def _filled(self, row: _Row, stop: int) -> None:
        whole = stop // self._page_size
        for page, key in zip(row.pages[:whole], row.keys[:whole], strict=True):
            self.pool.publish(page, key)
        row.filled = stop
        if stop == row.prompt.length:
            self._filling.remove(row)
            self._run(row)

    def _run(self, row: _Row) -> None:
        slot = row.slot
        self._table.position[slot] = row.prompt.length
        for stream in self.streams:
            stream.open(slot)
        self._row_of[slot] = row
        self._launched[slot] = self._done[slot] = 0
        self._limit[slot] = row.limit
        self._allowed[slot] = self._steps_allowed(row)
        self._running[slot] = True
        self.outbox.opened(row.job)

    # --- text that arrives while the request is spoken ---

    def _extend(self) -> None:
        for row in [self._rows[i] for i in self._texts if i in self._rows]:
            if not self._running[row.slot] or self._row_of[row.slot] is not row or row.prompt.feed is None:
                continue
            for text in self._texts.pop(row.job.id):
                tokens = [*row.prompt.feed.push(text.text), *(row.prompt.feed.close() if text.final else ())]
                slots = torch.tensor([row.slot], device=self._device)
                self._talker.extend(tokens, text.final, Rows(slots, self._table, self._kv), self._state)
            self._allowed[row.slot] = self._steps_allowed(row)

    @staticmethod
    def _steps_allowed(row: _Row) -> int:
        steps = row.prompt.feed.steps() if row.prompt.feed else None
        return UNLIMITED if steps is None else steps

    # --- stepping ---

    def _step(self) -> bool:
        able = self._running & (self._launched < np.minimum(self._allowed, self._limit))
        for stream in self.streams:
            able &= stream.has_room
        slots = np.flatnonzero(able)
        for rows, flags in isolate(slots.tolist(), self._launch_step, self._fail_slot) if len(slots) else ():
            self._launches.append(_Launch(np.asarray(rows), self._tenure[rows], Landing(flags)))
        keep = self._lag if len(slots) else 0
        busy = bool(len(slots)) or len(self._launches) > keep
        while len(self._launches) > keep:
            self._collect(self._launches.popleft())
        return busy

    def _launch_step(self, slots: Sequence[int]) -> Tensor:
        which = np.asarray(slots)
        flags = self._launcher(which)
        self._launched[which] += 1
        for stream in self.streams:
            stream.promised[which] += 1
        self.steps += 1
        return flags

    def _step_on_device(self, slots: Tensor) -> Tensor:
        """The whole frame: what a graph captures."""
        step = self._talker.step(Rows(slots, self._table, self._kv), self._state)
        for stream in self.streams:
            stream.put(slots, step.frames, step.emitted)
        self._table.advance(slots)
        return step.emitted.to(torch.uint8) * EMITTED + step.stopped.to(torch.uint8) * STOPPED

    def _collect(self, launch: _Launch) -> None:
        flags = launch.flags.numpy()
        current = self._running[launch.slots] & (self._tenure[launch.slots] == launch.tenures)
        slots, flags = launch.slots[current], flags[current]
        emitted = flags & EMITTED
        for stream in self.streams:
            stream.written[slots] += emitted
            stream.promised[slots] -= 1 - emitted
        self._done[slots] += 1
        stopped = (flags & STOPPED) > 0
        for slot in slots[stopped | (self._done[slots] >= self._limit[slots])]:
            self._finish(int(slot), bool(stopped[slots == slot][0]))

    def _finish(self, slot: int, stopped: bool) -> None:
        row = self._row_of[slot]
        assert row is not None
        job = row.job
        job.frames = int(self.streams[0].written[slot]) if self.streams else int(self._done[slot])
        asked_for = job.request.max_frames is not None and row.limit == job.request.max_frames
        if not stopped and not asked_for:
            job.fail(Runaway(f"no end within {row.limit} frames, more than this text can need; the speech was cut."))
        elif not stopped:
            job.reason = FinishReason.LENGTH
        self._leave(row)
        for stream in self.streams:
            stream.ended[slot] = True

    # --- leaving ---

    def _fail(self, row: _Row, error: BaseException) -> None:
        row.job.fail(failure(self.name, error))
        self._leave(row)

    def _fail_slot(self, slot: int, error: BaseException) -> None:
        row = self._row_of[slot]
        assert row is not None
        self._fail(row, error)

    def _leave(self, row: _Row) -> None:
        """Stop working on this row and give its pages back; once or twice, it is the same."""
        if self._row_of[row.slot] is row:
            self._running[row.slot] = False
            self._row_of[row.slot] = None
            self._tenure[row.slot] += 1
        if row in self._filling:
            self._filling.remove(row)
        if row in self._waiting:
            self._waiting.remove(row)
        self.pool.free(row.pages)
        row.pages = []

    def _drop(self, job: Job) -> None:
        self._texts.pop(job.id, None)
        row = self._rows.pop(job.id, None)
        if row is not None:
            self._leave(row)
        job.release(self.name)
