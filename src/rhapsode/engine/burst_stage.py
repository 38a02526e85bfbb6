"""The non-autoregressive stage: one launch makes all frames of a prompt, batched across requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.config import Deployment
from rhapsode.device.landing import lag_of
from rhapsode.device.memory import SlotMemory
from rhapsode.device.stream import FrameStream
from rhapsode.engine.bell import Bell
from rhapsode.engine.burst_batch import Candidate
from rhapsode.engine.burst_launcher import BurstLaunch, BurstLauncher
from rhapsode.engine.changes import Changes
from rhapsode.engine.clock import ListenerClock, Seconds, clock_s
from rhapsode.engine.device_stage import DeviceStage, soonest
from rhapsode.engine.isolation import failure, isolate
from rhapsode.engine.job import Job
from rhapsode.engine.launches import Launch
from rhapsode.engine.next_prompt import ask_for_next, end_streams
from rhapsode.engine.ring_writer import RingWriter
from rhapsode.engine.row import UNLIMITED, BurstRow, Progress
from rhapsode.engine.stage import Drop, Message, Resume, Text, Usage, Work
from rhapsode.engine.texts import AppendedTexts
from rhapsode.errors import GenerationFailed
from rhapsode.models.base import Burst, Measured, Prompt

MOST_AHEAD = 1
"""How many prompts of a request may be in flight when another one of it is launched."""
LOOK_S = 0.002
"""How often to look at all requests while nothing is known to have changed."""


class BurstStage(DeviceStage[BurstRow]):
    """Launches the prompts that listeners need first, and puts their frames into the stream in order.

    A prompt whose frames do not fit into the ring keeps the rest, and no further prompt of its request is launched.
    """

    def __init__(
        self,
        name: str,
        bell: Bell,
        worker: Burst,
        streams: Sequence[FrameStream],
        deployment: Deployment,
        memory: SlotMemory,
        clock: ListenerClock,
        frame_s: float = 0.0,
    ) -> None:
        """`frame_s`: how long a frame plays."""
        super().__init__(name, bell, worker, deployment, memory)
        self._streams, self._clock, self._frame_s, self._lag = streams, clock, frame_s, lag_of(memory.device)
        self._bursts, self._ring = BurstLauncher(worker, deployment, memory.device), RingWriter(streams, memory.device)
        self._rows: dict[str, BurstRow] = {}
        """By request: the first of its prompts that is not in the stream; `following` leads to the later ones."""
        self._texts = AppendedTexts(worker, memory)
        self._changes = Changes(lambda: sum(stream.changes for stream in streams), LOOK_S)
        self._announced = np.zeros(deployment.limits.slots + 1, np.bool_)  # the next stages know that frames will come
        self._took_s = self._landed_s = 0.0
        self._launches_total = self._frames_total = 0

    @property
    def poll_s(self) -> float | None:
        return soonest(self._launches.poll_s, self._ring.poll_s)

    def jobs(self) -> list[Job]:
        return [row.job for row in self._rows.values()]

    def usage(self) -> Usage:
        return Usage(steps=self._launches_total, frames=self._frames_total)

    # --- joining ---

    def _take(self, message: Message) -> None:
        self._changes.note()
        match message:
            case Work(job, payload, part) if not job.over:
                self._enter(job, payload, part)
            case Text(job) if not job.over:
                self._texts.add(message)
            case Resume(job) if not job.over and (row := self._last(job.id)) is not None:
                self._ask_for_next(row)
            case Drop(job):
                self._drop(job)

    def _enter(self, job: Job, prompt: Any, part: int) -> None:
        if not isinstance(prompt, Prompt):
            job.fail(failure(self.name, TypeError(f"a burst needs a Prompt, not {type(prompt).__name__}")))
            return
        row, before = BurstRow(job, prompt, part=part), self._last(job.id)
        row.follow(before)
        if before is None:
            self._ring.open(row.slot)
            self._rows[job.id] = row
            self._seats.take(row)
            self._seats.live[row.slot], self._announced[row.slot] = True, False
        else:
            before.following = row
        if not prompt.max_frames:  # context only
            row.progress = Progress.MADE
            self._ask_for_next(row)
            return
        for _, size in isolate([row], lambda rows: self._worker.size(rows[0].prompt), self._fail):
            row.size = max(1, int(size))

    def _last(self, job_id: str) -> BurstRow | None:
        row = self._rows.get(job_id)
        return [*row.chain()][-1] if row is not None else None

    def _here(self) -> list[BurstRow]:
        """Returns the first row of each request that goes on."""
        return [row for row in self._rows.values() if self._seats.has(row) and not row.job.over]

    def _ask_for_next(self, row: BurstRow) -> None:
        if row.progress is Progress.WAITING and row.measured is None:
            return  # it asks when it is launched: no request has more than one prompt that waits
        try:
            ask_for_next(row, self.outbox, self._texts)
        except Exception as error:  # invalid text that is found late fails only its own request
            self._fail(row, error)

    def _extend(self) -> None:
        """Takes the appended text of requests whose last prompt is still open for more."""
        for job_id in self._texts.waiting():
            row = self._last(job_id)
            if row is None or row.asked:
                continue  # the row is not here yet, or the text is for the next prompt
            for _ in isolate([row], self._texts.give, self._fail):
                self._ask_for_next(row)

    # --- launching ---

    def _run_prompts(self) -> bool:
        return False  # the prompt is what a launch works on

    def _launch(self) -> bool:
        self._extend()
        if self._ring.commit():
            self._changes.note()
        if not self._changes.look():
            return False
        moved = self._send_on()
        rows = self._choose() if self._bursts.in_flight <= self._lag else []
        self._announce(rows)
        for _ in isolate(rows, self._run, self._fail):
            pass
        if moved or rows:
            self._changes.note()
        return moved or bool(rows)

    def _choose(self) -> list[BurstRow]:
        """Returns the rows of the next launch."""
        able = [row for first in self._here() if (row := self._able(first)) is not None]
        given = zip(able, self._left_s(able), strict=True)
        candidates = [Candidate(row.size, row.measured is not None, left_s) for row, left_s in given]
        return [able[i] for i in self._bursts.choose(candidates)]

    def _able(self, first: BurstRow) -> BurstRow | None:
        """Returns the row of a request that could be launched now."""
        in_flight = 0
        for row in first.chain():
            if row.progress is Progress.WAITING:
                return row
            in_flight += row.progress is Progress.LAUNCHED
            if in_flight > MOST_AHEAD or (row.frames is not None and row.begun):
                return None  # frames that are made wait for room
        return None

    def _left_s(self, rows: Sequence[BurstRow]) -> Seconds:
        """Returns, for each row, the seconds of audio that its listener has, or that are on their way.

        New listeners have none. They go after one who would run dry before both had been served.
        """
        slots = np.array([row.slot for row in rows], np.int64)
        kept = [sum(other.made - other.sent for other in self._rows[row.job.id].chain()) for row in rows]
        coming_s = (self._ring.unread(slots) + np.array(kept, np.int64)) * self._frame_s
        heard_s = np.where([row.job.spoken_s > 0 for row in rows], np.maximum(self._clock.left_s(slots), 0.0), 0.0)
        return np.where([row.part == 0 for row in rows], 2 * self._took_s, coming_s + heard_s)

    def _announce(self, rows: Sequence[BurstRow]) -> None:
        """Tells the next stages of new requests, so that they prepare while the launch runs."""
        for row in rows:
            if not self._announced[row.slot]:
                self._announced[row.slot] = True
                self.outbox.opened(row.job)

    def _run(self, rows: Sequence[BurstRow]) -> None:
        launch, values = self._bursts(rows)
        self._launches.add(launch, values)
        self._launches_total += not launch.measures
        for row in rows:
            row.progress = Progress.LAUNCHED
            self._ask_for_next(row)

    # --- results ---

    def _land(self) -> bool:
        return self._collect()

    def _landed(self, launch: Launch, current: NDArray[np.bool_], values: NDArray[Any]) -> None:
        assert isinstance(launch, BurstLaunch)
        self._changes.note()
        now_s = clock_s()
        self._took_s, self._landed_s = now_s - max(launch.started_s, self._landed_s), now_s
        for row, here, value, made in zip(launch.rows, current.tolist(), values, launch.made, strict=True):
            row.work_s += self._took_s / len(launch.rows)
            if not here or row.job.over:
                continue
            if launch.measures:
                self._measured(row, Measured(row.prompt, made, np.array(value, np.int64)))
            elif value >= 0:
                self._made(row, made[:value])
            else:
                self._fail(row, GenerationFailed("the model's output is not finite."))
        if not launch.measures:
            audio_s = self._frame_s * int(np.maximum(values, 0).sum())
            listeners = max(int(np.count_nonzero(self._seats.live)), len(launch.rows))
            self.pace.observe(listeners, sum(row.work_s for row in launch.rows), audio_s)

    def _measured(self, row: BurstRow, measured: Measured) -> None:
        row.measured, row.size, row.progress = measured, measured.frames, Progress.WAITING
        if row.runs_away or not measured.frames:  # nothing is rendered: a runaway might not fit into memory
            row.progress = Progress.MADE

    def _made(self, row: BurstRow, frames: Tensor) -> None:
        row.progress, row.frames, row.made = Progress.MADE, frames, len(frames)
        self._frames_total += row.made
        row.job.note_first_frame()

    def _send_on(self) -> bool:
        """Puts what was made into the streams, as far as there is room; returns whether anything moved."""
        moved = False
        room = self._ring.room()
        for first in [row for row in self._here() if not row.is_waiting]:
            row: BurstRow | None = first
            while row is not None and self._begin(row):
                sent = self._ring.send(row, int(room[row.slot]))
                room[row.slot] -= sent
                row = self._finish(row) if row.is_sent else None
                moved |= sent > 0 or row is not None
        return moved

    def _begin(self, row: BurstRow) -> bool:
        """Called when a row is the next one to be heard; returns false if nothing of it is heard."""
        if not row.begun:
            row.begun = True
            row.plan(UNLIMITED)
            for stream in self._streams:
                for mark in row.marks():
                    stream.mark(row.slot, mark)
        if row.runs_away:
            row.as_asked, row.limit = False, row.prompt.max_frames
        elif row.limit > 0 or not row.prompt.max_frames:
            return True
        self._cut(row)
        return False

    def _finish(self, row: BurstRow) -> BurstRow | None:
        """Called when all frames of a row are in the stream; returns the row that follows it, if it is here."""
        row.job.frames = self._streams[0].written(row.slot)
        row.frames, row.spoken = None, True
        if row.made > row.limit:
            self._cut(row)
            return None
        self._ask_for_next(row)
        if row.following is not None:
            self._rows[row.job.id] = row.following
            self._seats.take(row.following)
        elif row.is_last:
            self._end(row)
        return row.following

    # --- leaving ---

    def _cut(self, row: BurstRow) -> None:
        row.cut()
        self._end(row)

    def _end(self, row: BurstRow) -> None:
        """Ends the streams of a request after which nothing follows."""
        self._announce([row])
        self._leave(row)
        end_streams(row, self._streams)

    def _leave(self, row: BurstRow) -> None:
        if self._seats.has(row):
            self._seats.vacate(row.slot)
            self._ring.forget(row.slot)

    def _drop(self, job: Job) -> None:
        self._texts.forget(job.id)
        if (row := self._rows.pop(job.id, None)) is not None:
            self._leave(row)
        job.release(self.name)
