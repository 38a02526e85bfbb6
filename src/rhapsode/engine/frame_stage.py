"""The autoregressive stage: continuous batching at frame granularity over slots and paged keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rhapsode.config import Deployment
from rhapsode.device.landing import lag_of
from rhapsode.device.launcher import Launcher
from rhapsode.device.memory import SlotMemory
from rhapsode.device.row_writes import RowWrites
from rhapsode.device.stream import FrameStream
from rhapsode.engine.bell import Bell
from rhapsode.engine.device_stage import DeviceStage, soonest
from rhapsode.engine.frame_launch import EMITTED, FIRST, STOPPED, FrameLaunch
from rhapsode.engine.isolation import failure, isolate
from rhapsode.engine.job import Job
from rhapsode.engine.launches import Launch
from rhapsode.engine.next_prompt import ask_for_next, end_streams
from rhapsode.engine.prefill import Prepared, prefill_for
from rhapsode.engine.row import FrameRow
from rhapsode.engine.stage import Drop, Message, Resume, Text, Usage, Work
from rhapsode.engine.step_counts import StepCounts
from rhapsode.engine.texts import AppendedTexts
from rhapsode.engine.turn_order import TurnOrder
from rhapsode.errors import InvalidRequest
from rhapsode.models.base import Talker
from rhapsode.models.placement import begins

MOST_BESIDE = 8
"""With more rows than this, a row's first frame is launched together with the next frames of the others."""


class FrameStage(DeviceStage[FrameRow]):
    """Emits one frame per turn for every request that can go on."""

    def __init__(
        self,
        name: str,
        bell: Bell,
        talker: Talker,
        streams: Sequence[FrameStream],
        deployment: Deployment,
        memory: SlotMemory,
        endless: bool = False,
        frame_s: float = 0.0,
    ) -> None:
        """`endless`: no row stops by itself, for example because random weights would stop at any step."""
        slots = deployment.limits.slots
        super().__init__(name, bell, talker, deployment, memory)
        self._streams = streams
        self._frame_s = frame_s
        self._lag = lag_of(memory.device)
        self._order = TurnOrder(frame_s)
        prefill = prefill_for(talker, deployment, memory, talker.defaults)
        assert prefill is not None  # `check_worker` has seen it
        self._prefill = prefill
        self._on_device = FrameLaunch(talker, streams, memory, endless)
        self._launcher = Launcher(self._on_device, slots, memory.device, slots if deployment.deterministic else None)
        self._rows: dict[str, FrameRow] = {}
        self._texts = AppendedTexts(talker, memory)
        self._starts = RowWrites(FrameLaunch.start, memory.device)
        self._steps_total = self._frames_total = 0
        self._steps = StepCounts(slots)

    def start(self) -> None:
        if self._deployment.graphs:
            buffers = [*self._memory.tensors(), *(tensor for stream in self._streams for tensor in stream.tensors())]
            with torch.inference_mode():
                self._capture_prompts()
                if not self.works_inline:
                    scratch = [self._deployment.limits.slots, 0, 0, *(0 for _ in self._streams)]
                    self._starts.capture(self._on_device, np.array([scratch]))
                self._launcher.capture(self._deployment.limits.slots, buffers=buffers)
                if self._traits.first_step is not None and begins(self._deployment, self._memory.device.type):
                    self._launcher.capture(1, *FIRST)

    def jobs(self) -> list[Job]:
        return [row.job for row in self._rows.values()]

    def usage(self) -> Usage:
        pool = self._memory.pool
        return Usage(pool.total, pool.in_use, pool.shared_hits, self._steps_total, self._frames_total)

    def _take(self, message: Message) -> None:
        match message:
            case Work(job, payload, part) if not job.over:
                self._enter(job, payload, part)
            case Text(job) if not job.over:
                self._texts.add(message)
            case Resume(job) if not job.over:
                self._resume(job)
            case Drop(job):
                self._drop(job)

    @property
    def poll_s(self) -> float | None:
        return soonest(self._launches.poll_s, self._prefill.poll_s)

    # --- joining ---

    def receive(self, work: Work) -> None:
        super().receive(self._prefill.prepared(work))

    def _enter(self, job: Job, prepared: Any, part: int) -> None:
        if not isinstance(prepared, Prepared):
            job.fail(failure(self.name, TypeError(f"a talker needs a Prompt, not {type(prepared).__name__}")))
            return
        row, before = FrameRow(job, prepared.prompt, prepared.keys, part=part), self._rows.get(job.id)
        row.follow(before)
        if before is None or before.spoken:
            self._begin(row, before)
        else:
            before.following = row

    def _begin(self, row: FrameRow, before: FrameRow | None) -> None:
        """Starts to prefill a row, which takes the place of the prompt before it."""
        if before is not None:
            if row.prompt.continues:
                row.go_on_after(before, self._steps.done(row.slot), self._memory.page_size)
            if row.prompt.continues:  # still: without room to go on, it got a prompt that starts afresh
                row.pages, before.pages = before.pages, []
            self._leave(before)
        most = len(row.pages) * self._memory.page_size or self._memory.most_positions
        self._rows[row.job.id] = row
        needed = row.plan(most)
        if needed >= most:
            self._fail(row, InvalidRequest(f"the prompt needs {needed} positions, and only {most} fit."))
            return
        self._prefill.add(row)

    def _join(self, rows: Sequence[FrameRow]) -> None:
        """Starts to decode these rows together: it takes a few launches, however many rows there are."""
        slots = np.array([row.slot for row in rows])
        positions = np.array([row.base + row.prompt.length for row in rows])
        steps, later = np.array([row.first_step for row in rows]), np.array([row.part > 0 for row in rows])
        heads = [stream.started(slots, later) for stream in self._streams]
        self._starts(self._on_device, np.stack([slots, positions, steps, *heads], axis=1))
        for stream in self._streams:
            for row in rows:
                for mark in row.marks():
                    stream.mark(row.slot, mark)
        self._steps.begin(rows)
        self._seats.live[slots] = True
        for row in rows:
            self._seats.take(row)
            if not row.part:
                self.outbox.opened(row.job)
            self._ask_for_next(row)
            if row.limit <= 0:  # the prompt is context only, or the request has all frames it asked for
                self._finish(row, of_itself=row.prompt.max_frames == 0)

    # --- text that arrives later, and what comes after a prompt ---

    def _extend(self) -> None:
        """Gives the talker the appended text of the prompts that it is speaking."""
        for job_id in self._texts.waiting():
            row = self._rows.get(job_id)
            if row is None or row.asked or not (self._seats.has(row) or row.spoken):
                continue  # the row is not here yet, or the text is for the next prompt
            for _ in isolate([row], self._texts.give, self._fail):
                self._steps.allow(row)
                self._go_on(row)

    def _resume(self, job: Job) -> None:
        row = self._rows.get(job.id)
        if row is not None and not row.asked and (self._seats.has(row) or row.spoken):
            self._go_on(row)

    def _go_on(self, row: FrameRow) -> None:
        self._ask_for_next(row)
        if row.spoken and row.is_last:
            self._end(row)

    def _ask_for_next(self, row: FrameRow) -> None:
        try:
            ask_for_next(row, self.outbox, self._texts)
        except Exception as error:  # invalid text that is found late fails only its own request
            self._fail(row, error)

    # --- stepping ---

    def _run_prompts(self) -> bool:
        frame_first = not self.works_inline and self._order.is_frame_due and self._able().any()
        if frame_first:
            return False
        ready, busy, launched_s = self._prefill.turn(self._fail, speaking=bool(self._seats.live.any()))
        for seconds in launched_s:
            self._order.prompts_launched(seconds)
        if ready:
            self._join(ready)
        return busy

    def _launch(self) -> bool:
        self._extend()
        prompts_first = not self.works_inline and self._prefill.is_pending and not self._order.is_frame_due
        if len(self._launches) > self._lag or prompts_first or (self._lag and self._order.is_early):
            return False
        launch = self._next()
        if launch is not None:
            self._isolated(launch, self._run)
        if not self._launches:
            self.pace.pause()
        return launch is not None

    def _able(self) -> NDArray[np.bool_]:
        """Returns, for each slot, whether a frame can be launched for it."""
        able = self._seats.live & self._steps.able()
        for stream in self._streams:
            able &= stream.room() > 0
        return able

    def _next(self) -> Launch | None:
        slots = np.flatnonzero(self._able())
        new = slots[self._steps.are_new(slots)]
        if len(new) == 1 and len(slots) <= MOST_BESIDE and self._seats.at(new[0]).first_pass_ran:
            return Launch(new[:, None], FIRST)
        return Launch(slots[:, None]) if len(slots) else None

    def _run(self, launch: Launch) -> None:
        """Launches a frame of these rows, and counts it."""
        values = self._launcher(launch.inputs, *launch.statics)
        self._order.frame_launched(is_first=bool(self._steps.are_new(launch.slots).any()))
        self._steps.launch(launch.slots)
        for stream in self._streams:
            stream.promise(launch.slots)
            if launch.statics:
                stream.commit_ahead(launch.slots)
        self._launches.add(launch, values)

    def _land(self) -> bool:
        return self._collect()

    def _landed(self, launch: Launch, current: NDArray[np.bool_], values: NDArray[Any]) -> None:
        prompts_s = self._order.frame_landed()
        self.pace.tick(len(launch.slots), launch.frames * self._frame_s, 0.0 if self.works_inline else prompts_s)
        slots, flags = launch.slots[current], values[current]
        emitted = (flags & EMITTED).astype(np.int64)
        self._steps_total += 1
        self._frames_total += int(emitted.sum())
        for stream in self._streams:
            stream.landed_ahead() if launch.statics else stream.commit(slots, 1, emitted)
        first, at_limit = self._steps.land(slots, emitted > 0)
        for slot in first.tolist():
            self._seats.at(slot).job.note_first_frame()
        stopped = (flags & STOPPED) > 0
        ended = stopped | at_limit
        for slot, of_itself in zip(slots[ended].tolist(), stopped[ended].tolist(), strict=True):
            self._finish(self._seats.at(slot), of_itself)

    def _finish(self, row: FrameRow, of_itself: bool) -> None:
        row.job.frames = self._streams[0].written(row.slot)
        self._seats.vacate(row.slot)
        if of_itself:
            row.spoken = True
            self._ask_for_next(row)
            if row.following is not None:
                self._begin(row.following, row)
            elif row.is_last:
                self._end(row)
            return
        row.cut()
        self._end(row)

    # --- leaving ---

    def _end(self, row: FrameRow) -> None:
        """Ends the streams of a row after which nothing follows, and frees its pages."""
        self._leave(row)
        end_streams(row, self._streams)

    def _leave(self, row: FrameRow) -> None:
        if self._seats.has(row):
            self._seats.vacate(row.slot)
        self._prefill.leave(row)

    def _drop(self, job: Job) -> None:
        self._texts.forget(job.id)
        if (row := self._rows.pop(job.id, None)) is not None:
            self._leave(row)
        job.release(self.name)
