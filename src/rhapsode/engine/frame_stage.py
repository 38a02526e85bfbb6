"""The autoregressive loop: continuous batching at frame granularity over slots and paged KV."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.config import Deployment
from rhapsode.device.landing import LANDING_S, Landing, lag_of
from rhapsode.device.launcher import Launcher
from rhapsode.device.memory import SlotMemory
from rhapsode.device.sections import section
from rhapsode.device.stream import FrameStream
from rhapsode.device.upload import upload
from rhapsode.engine.job import Job
from rhapsode.engine.prefill import FrameRow, Prefill
from rhapsode.engine.stage import Drop, Text, TurnStage, Usage, Work, failure, isolate
from rhapsode.errors import InvalidRequest, Runaway
from rhapsode.models.base import Prompt, Step, Talker
from rhapsode.types import FinishReason

EMITTED, STOPPED = 1, 2
UNLIMITED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class _Launch:
    """A step under way: whose it is, and its flags on their way to the host."""

    slots: NDArray[np.int64]
    tenures: NDArray[np.int64]
    flags: Landing


class FrameStage(TurnStage):
    """Emits one frame per turn for every request that can go on."""

    def __init__(
        self,
        name: str,
        talker: Talker,
        deployment: Deployment,
        device: torch.device,
        dtype: torch.dtype,
        endless: bool = False,
    ) -> None:
        super().__init__(name)
        self._endless = endless  # no row stops by itself, every frame is emitted: for measurements
        slots = deployment.limits.slots
        self._talker = talker
        self._deployment = deployment
        self._memory = SlotMemory(talker.kv(), talker.state(slots), deployment, device, dtype)
        self._prefill = Prefill(talker, self._memory, deployment.memory.prefill_positions, deployment.deterministic)
        self._launcher = Launcher(self._step_on_device, slots, device, slots if deployment.deterministic else None)
        self._lag = lag_of(device)
        self._launches: deque[_Launch] = deque()
        self._steps_total = self._frames_total = 0
        self._streams: list[FrameStream] = []
        self._rows: dict[str, FrameRow] = {}
        self._texts: dict[str, list[Text]] = {}  # appended, not yet given to the talker
        # By slot: what the host decides with, as vectors.
        self._row_of: list[FrameRow | None] = [None] * (slots + 1)
        self._running = np.zeros(slots + 1, np.bool_)
        self._launched = np.zeros(slots + 1, np.int64)
        self._done = np.zeros(slots + 1, np.int64)
        self._limit = np.zeros(slots + 1, np.int64)
        self._allowed = np.zeros(slots + 1, np.int64)  # by the text so far
        self._tenure = np.zeros(slots + 1, np.int64)  # counts a slot's owners: an earlier one's late result shows

    def frame_stream(self, slots: int, capacity: int) -> FrameStream:
        """A new edge for this stage's frames."""
        talker = self._talker
        stream = FrameStream(slots, capacity, talker.frame_shape, talker.frame_dtype, self._memory.device)
        self._streams.append(stream)
        return stream

    @property
    def poll_s(self) -> float | None:
        return LANDING_S if self._launches else None

    def start(self) -> None:
        if not self._deployment.graphs:
            return
        slots, buffers = self._deployment.limits.slots, [*self._memory.tensors()]
        with torch.inference_mode():
            if self._memory.device.type == "cuda":
                scratch = self._memory.slots([slots])
                self._talker.capture(self._memory.rows(scratch), self._deployment.memory.prefill_positions)
            for stream in self._streams:
                buffers += stream.tensors()
            self._launcher.capture(slots, buffers=buffers)

    def stop(self) -> None:
        for job in self.jobs():
            self._drop(job)

    def jobs(self) -> list[Job]:
        return [row.job for row in self._rows.values()]

    def usage(self) -> Usage:
        pool = self._memory.pool
        return Usage(pool.total, pool.in_use, pool.shared_hits, self._steps_total, self._frames_total)

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
        ready, busy = self._prefill.turn(self._fail)
        if ready:
            self._run(ready)
        self._extend()
        return self._step() or busy

    # --- joining ---

    def _enter(self, job: Job, prompt: Prompt, part: int = 0) -> None:
        most = self._memory.most_positions
        if prompt.length >= most:
            job.fail(InvalidRequest(f"the prompt needs {prompt.length} positions, and only {most} fit."))
            return
        wishes = (job.request.max_frames, prompt.wanted_frames)
        wanted = [frames - job.frames for frames in wishes if frames is not None]
        limit = min(prompt.max_frames, most - prompt.length, *wanted)
        row = self._rows[job.id] = FrameRow(job, prompt, limit, as_wanted=limit in wanted, part=part)
        self._prefill.add(row)

    def _run(self, rows: Sequence[FrameRow]) -> None:
        """All that are ready at once: on the device it costs a few launches, however many they are."""
        known = np.array([row.slot for row in rows])
        slots = upload(known, self._memory.device)
        lengths = upload(np.array([row.prompt.length for row in rows]), self._memory.device)
        self._memory.table.position[slots] = lengths
        later = np.array([row.part > 0 for row in rows])
        for stream in self._streams:
            for some, begin in ((known[~later], stream.open), (known[later], stream.resume)):
                if len(some):
                    begin(upload(some, self._memory.device), some)
        self._launched[known] = self._done[known] = 0
        self._limit[known] = [row.limit for row in rows]
        self._allowed[known] = [_steps_allowed(row.prompt) for row in rows]
        self._running[known] = True
        for row in rows:
            self._row_of[row.slot] = row
            if not row.part:
                self.outbox.opened(row.job)

    def _extend(self) -> None:
        """Give the talker the text that has arrived for requests it is speaking."""
        for row in [self._rows[job_id] for job_id in self._texts if job_id in self._rows]:
            if self._row_of[row.slot] is row:
                for _ in isolate([row], self._give_text, self._fail):
                    self._allowed[row.slot] = _steps_allowed(row.prompt)

    def _give_text(self, rows: Sequence[FrameRow]) -> None:
        (row,) = rows
        feed, slots = row.prompt.feed, self._memory.slots([row.slot])
        assert feed is not None  # only requests with open text are sent any
        for text in self._texts.pop(row.job.id):
            whole = feed.steps() is None  # then this is for the next part
            tokens = [*feed.push(text.text), *(feed.close() if text.final else ())]
            if not whole:
                self._talker.extend(tokens, text.final, self._memory.rows(slots), self._memory.state)

    # --- stepping ---

    def _step(self) -> bool:
        """Launch the next frame, unless enough are under way; take in those that have arrived."""
        launched = len(self._launches) <= self._lag and self._launch_able()
        collected = False
        while self._launches and self._launches[0].flags.ready():
            self._collect(self._launches.popleft())
            collected = True
        return launched or collected

    def _launch_able(self) -> bool:
        able = self._running & (self._launched < np.minimum(self._allowed, self._limit))
        for stream in self._streams:
            able &= stream.has_room
        slots = np.flatnonzero(able)
        for rows, flags in isolate(slots.tolist(), self._launch, self._fail_slot) if len(slots) else ():
            self._launches.append(_Launch(np.asarray(rows), self._tenure[rows], Landing(flags)))
        return bool(len(slots))

    def _launch(self, slots: Sequence[int]) -> Tensor:
        which = np.asarray(slots)
        flags = self._launcher(which)
        self._launched[which] += 1
        for stream in self._streams:
            stream.promised[which] += 1
        return flags

    def _step_on_device(self, slots: Tensor) -> Tensor:
        """The whole frame: what a graph captures."""
        with section("talker"):
            step = self._talker.step(self._memory.rows(slots), self._memory.state)
        if self._endless:
            step = Step(step.frames, torch.ones_like(step.emitted), torch.zeros_like(step.stopped))
        for stream in self._streams:
            stream.put(slots, step.frames, step.emitted)
        self._memory.table.advance(slots)
        return step.emitted.to(torch.uint8) * EMITTED + step.stopped.to(torch.uint8) * STOPPED

    def _collect(self, launch: _Launch) -> None:
        flags = launch.flags.numpy()
        current = self._running[launch.slots] & (self._tenure[launch.slots] == launch.tenures)
        slots, flags = launch.slots[current], flags[current]
        emitted = flags & EMITTED
        self._steps_total += 1
        self._frames_total += int(emitted.sum())
        for stream in self._streams:
            stream.written[slots] += emitted
            stream.promised[slots] -= 1 - emitted
        self._done[slots] += 1
        stopped = (flags & STOPPED) > 0
        ended = stopped | (self._done[slots] >= self._limit[slots])
        for slot, of_itself in zip(slots[ended].tolist(), stopped[ended].tolist(), strict=True):
            self._finish(slot, of_itself)
        for stream in self._streams:
            stream.on_written()

    def _finish(self, slot: int, of_itself: bool) -> None:
        row = self._at(slot)
        job = row.job
        job.frames = int(self._streams[0].written[slot])
        if not of_itself and row.as_wanted:
            job.reason = FinishReason.LENGTH
        elif not of_itself:
            job.fail(Runaway(f"no end within the {row.limit} frames this request may have; the speech was cut."))
        self._leave(row)
        if of_itself and self._go_on(row):
            return
        for stream in self._streams:
            stream.ended[slot] = True

    def _go_on(self, row: FrameRow) -> bool:
        """With the next part of its text, if there is one, in the same slot: the codec knows of nothing."""
        try:
            prompt = row.prompt.following() if row.prompt.following else None
        except Exception as error:  # a text that fails late fails alone
            row.job.fail(failure(self.name, error))
            return False
        if prompt is not None:
            self._enter(row.job, prompt, row.part + 1)
        return prompt is not None

    # --- leaving ---

    def _at(self, slot: int) -> FrameRow:
        row = self._row_of[slot]
        assert row is not None
        return row

    def _fail(self, row: FrameRow, error: BaseException) -> None:
        row.job.fail(failure(self.name, error))
        self._leave(row)

    def _fail_slot(self, slot: int, error: BaseException) -> None:
        self._fail(self._at(slot), error)

    def _leave(self, row: FrameRow) -> None:
        """Stop working on this row and give its pages back; twice is as good as once."""
        if self._row_of[row.slot] is row:
            self._running[row.slot] = False
            self._row_of[row.slot] = None
            self._tenure[row.slot] += 1
        self._prefill.remove(row)
        self._memory.pool.free(row.pages)
        row.pages = []

    def _drop(self, job: Job) -> None:
        self._texts.pop(job.id, None)
        row = self._rows.pop(job.id, None)
        if row is not None:
            self._leave(row)
        job.release(self.name)


def _steps_allowed(prompt: Prompt) -> int:
    steps = prompt.feed.steps() if prompt.feed else None
    return UNLIMITED if steps is None else steps
