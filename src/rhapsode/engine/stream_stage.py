"""Streaming stages: they process the frames of a stream, batched across requests, the most urgent listener first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rhapsode.config import Deployment
from rhapsode.device.buckets import batch_sizes
from rhapsode.device.launcher import Launcher
from rhapsode.device.marks import SegmentEnd
from rhapsode.device.memory import SlotMemory
from rhapsode.device.ragged import LaunchSizes
from rhapsode.device.slots import SlotRow
from rhapsode.device.stream import FrameStream
from rhapsode.engine.bell import Bell
from rhapsode.engine.block_grid import BlockGrid
from rhapsode.engine.changes import Changes
from rhapsode.engine.clock import clock_s
from rhapsode.engine.device_stage import DeviceStage, soonest
from rhapsode.engine.growth import PageGrowth, plan_pages
from rhapsode.engine.job import Job
from rhapsode.engine.launches import RAGGED_COLUMNS, Launch
from rhapsode.engine.openings import Openings
from rhapsode.engine.planner import Choice, Planner, Ready
from rhapsode.engine.prefill import Prepared, prefill_for
from rhapsode.engine.row import StreamRow
from rhapsode.engine.sink import Sink
from rhapsode.engine.stage import Drop, Message, Opened, Work
from rhapsode.engine.stream_launch import StreamLaunch
from rhapsode.errors import InvalidRequest
from rhapsode.models.base import StreamWorker, traits_of
from rhapsode.types import Sampling

MOST_IN_FLIGHT = 4
"""The most launches in flight; the next one waits until one of them has landed."""
HELD_BACK_S = 0.002
"""How often to check whether a listener can wait no longer, while no launch is chosen."""


class StreamStage(DeviceStage[StreamRow]):
    """Turns the frames of an incoming stream into samples or into frames of another stream."""

    def __init__(
        self,
        name: str,
        bell: Bell,
        worker: StreamWorker,
        source: FrameStream,
        sink: Sink,
        planner: Planner,
        ladder: Sequence[int],
        deployment: Deployment,
        memory: SlotMemory,
        *,
        rate: int = 1,
        needs_payload: bool = False,
        frame_s: float = 0.0,
        stream: torch.cuda.Stream | None = None,
    ) -> None:
        """`ladder`: the sizes of launches, in blocks. `rate`: positions in the worker's own KV cache per frame.
        `frame_s`: seconds of audio of one frame, if the pace of this stage is measured by its launches."""
        reach, device, slots = worker.reach, memory.device, deployment.limits.slots
        most = min(traits_of(worker).most_rows or slots, deployment.chunks.batch, slots)
        super().__init__(name, bell, worker, deployment, memory, stream)
        fixed, columns = most if deployment.deterministic else None, 1 if reach.plain else RAGGED_COLUMNS
        on_device = StreamLaunch(worker, source, sink, memory, rate)
        self._launcher = Launcher(on_device, slots, device, fixed, columns)
        self._growth = PageGrowth(memory) if self._traits.pages is not None else None
        self._prefill = prefill_for(worker, deployment, memory, Sampling(), self._growth)
        self._timed_frame_s = frame_s if self.works_inline else 0.0
        self._reach, self._source, self._sink = reach, source, sink
        self._planner, self._ladder = planner, ladder
        self._most, self._rate, self._needs_payload = most, rate, needs_payload
        self._spare = source.capacity - ladder[-1] * reach.granularity - reach.context
        self._rows: dict[str, StreamRow] = {}
        self._joining: dict[str, StreamRow] = {}  # those of `_rows` that have not begun
        self._grid = BlockGrid(slots, source, reach)
        self._held_back = self._looks = False
        self._changes = Changes(lambda: source.changes + sink.changes, HELD_BACK_S)
        self._captured = deployment.graphs and device.type == "cuda"  # on a CPU the time goes into arithmetic
        rows = [most] if deployment.deterministic else batch_sizes(most)
        sizes = LaunchSizes([n * reach.granularity for n in ladder], rows) if self._captured else None
        self._open = Openings(worker, memory, sizes, alone=deployment.deterministic)

    @property
    def poll_s(self) -> float | None:
        prompts_s = self._prefill.poll_s if self._prefill is not None else None
        return soonest(self._launches.poll_s, prompts_s, self._sink.poll_s, HELD_BACK_S if self._held_back else None)

    def start(self) -> None:
        if self._captured:
            with torch.inference_mode(), self._on_stream():
                self._capture_prompts()
                for blocks in self._ladder:
                    for seen in {0, self._grid.kept_ahead}:
                        self._launcher.capture(self._most, blocks * self._reach.granularity, seen)
                self._launcher.reserve_landings(MOST_IN_FLIGHT)

    def jobs(self) -> list[Job]:
        return [row.job for row in self._rows.values()]

    # --- joining ---

    def receive(self, work: Work) -> None:
        super().receive(self._prefill.prepared(work) if self._prefill is not None else work)

    def _take(self, message: Message) -> None:
        self._changes.note()
        match message:
            case Opened(job) if not job.over:
                self._row(job).opened = True
                self._start_prefill(self._row(job))
            case Work(job, payload, part) if not job.over and not part:
                self._arrive(self._row(job), payload)
            case Drop(job):
                self._drop(job)

    def _row(self, job: Job) -> StreamRow:
        if job.id not in self._rows:
            self._rows[job.id] = self._joining[job.id] = StreamRow(job)
        return self._rows[job.id]

    def _arrive(self, row: StreamRow, payload: Any) -> None:
        row.arrived = True
        if isinstance(payload, Prepared):
            row.prompt, row.keys, row.payload = payload.prompt, payload.keys, payload.prompt
            most = self._memory.most_positions
            if plan_pages(row, self._rate, most, grows=self._growth is not None):
                self._start_prefill(row)
            else:
                self._fail(row, InvalidRequest(f"the voice needs {row.prompt.length} positions, and only {most} fit."))
        else:
            row.payload = payload
            if self._seats.has(row):  # its frames have begun before the payload
                self._open([row], self._fail)

    def _start_prefill(self, row: StreamRow) -> None:
        """Adds a row to prefill once the stage before has given it pages, so that no two requests block each other."""
        if self._prefill is not None and row.opened and row.arrived:
            self._prefill.add(row)

    def _run_prompts(self) -> bool:
        if self._prefill is None:
            return False
        ready, busy, _ = self._prefill.turn(self._fail, speaking=bool(self._seats.live.any()))
        if ready:  # from now on they can be given frames
            lengths = np.array([row.prompt.length for row in ready])
            self._memory.table.place(np.array([row.slot for row in ready]), lengths, np.zeros_like(lengths))
            self._changes.note()
        for row in ready:
            row.prefilled = True
            self._seats.live[row.slot] = self._seats.has(row)  # a row that restarts for a new segment is live again
        return busy

    def _begin_ready(self) -> None:
        """Starts the rows whose frames will come and whose payload, if one is needed, has arrived."""
        ready = [row for row in self._joining.values() if row.opened and self._has_all(row)]
        if not ready:
            return
        if self._prefill is None:
            self._memory.join([SlotRow(slot=row.slot, seed=row.job.seed) for row in ready])
        else:
            self._source.begin(np.array([row.slot for row in ready]))
        self._sink.open([row.job for row in ready])
        for row in ready:
            del self._joining[row.job.id]
            self._grid.begin(row.slot, -row.prompt.offset)
            self._grid.forget(row.slot)
            self._planner.open(row.slot, row.job.request.first_chunk_frames)
            self._seats.take(row)
            self._seats.live[row.slot] = True
            self.outbox.opened(row.job)
        self._open(ready, self._fail)

    def _has_all(self, row: StreamRow) -> bool:
        has_all = row.prefilled if self._prefill is not None else row.arrived or not self._needs_payload
        return has_all and not row.job.over

    # --- working ---

    def _launch(self) -> bool:
        self._looks = self._changes.look() or self.works_inline
        if not self._looks:
            self._held_back = True
            return False
        self._begin_ready()
        moved = self._pass_marks()
        launch = self._next() if len(self._launches) < MOST_IN_FLIGHT else None
        if launch is not None:
            self._source.wait_on_device()
            self._isolated(launch, self._run)
        if moved or launch is not None:
            self._changes.note()
        return moved or launch is not None

    def _next(self) -> Launch | None:
        live = self._seats.live_slots()
        self._held_back = False
        if not len(live):
            return None
        source = self._source
        available, closing = source.available(live), source.closing(live)
        blocks = self._grid.whole(live, available, closing)
        blocks = np.minimum(blocks, self._sink.room()[live] // self._reach.granularity)
        if self._growth is not None:
            blocks = self._growth.serve([self._seats.at(slot) for slot in live.tolist()], blocks, self._fail)
        ready = Ready(live, blocks, closing, available >= self._spare, len(self._joining))
        choice = self._planner.choose(ready, self._most)
        if source.lead:
            source.ask(live if choice is None else np.setdiff1d(live, choice.slots))
        if choice is None:
            self._held_back = bool(blocks.any())
            return None
        return self._grid.launch(choice)

    def _run(self, launch: Launch) -> None:
        """Launches the next blocks of these rows, and counts them."""
        started_s = clock_s()
        values = self._launcher(launch.inputs, *launch.statics)
        if self._timed_frame_s and (not self.pace.known or self._grid.is_usual(launch, self._timed_frame_s)):
            live = int(np.count_nonzero(self._seats.live))
            self.pace.observe(live, clock_s() - started_s, launch.frames * self._timed_frame_s)
        _, counts = launch.ragged()
        self._source.consume(launch.slots, counts)
        self._sink.launched(launch.slots, launch.heard())
        self._planner.launched(Choice(launch.slots, launch.statics[0] // self._reach.granularity))
        self._grid.launched(launch)
        if self._growth is not None:
            rows = map(self._seats.at, launch.slots.tolist())
            self._growth.launched(rows, launch.statics[0] * self._rate)
        self._launches.add(launch, values)

    def _landed(self, launch: Launch, current: NDArray[np.bool_], values: NDArray[Any]) -> None:
        skip, counts = launch.ragged()
        rows = zip(launch.slots.tolist(), current, strict=True)
        jobs = [self._seats.at(slot).job if here else None for slot, here in rows]
        self._sink.landed(jobs, skip, launch.heard(), values)
        self._source.release(launch.slots[current], counts[current])

    def _land(self) -> bool:
        landed = self._collect()
        if not (landed or self._looks):
            return False
        live = self._seats.live_slots()
        ended = live[self._source.exhausted(live)].tolist()
        for row in map(self._seats.at, ended):
            self._seats.live[row.slot] = False
            if self._prefill is not None:
                self._prefill.free(row)
            self._sink.end(row.job)
        if landed or ended:
            self._changes.note()
        return landed or bool(ended)

    def _pass_marks(self) -> bool:
        live = self._seats.live_slots()
        reached = self._source.at_mark(live).tolist()
        for slot in reached:
            row, mark = self._seats.at(slot), self._source.pass_mark(slot)
            is_new = isinstance(mark, SegmentEnd)
            start = int(self._source.consumed(np.array([slot]))[0])
            if is_new or start > row.grid_at:  # no block crosses a mark: a new grid starts after it
                self._grid.begin(slot, start - (row.prompt.offset if is_new else 0))
                row.grid_at = start
            if is_new or self._grid.keeps(slot):  # kept look-ahead is of no use after a mark
                self._restart(row)
            self._sink.mark(row.job, mark)
        return bool(reached)

    def _restart(self, row: StreamRow) -> None:
        """Starts a new segment, with no state or context of the frames before it."""
        self._grid.forget(row.slot)
        self._source.begin_segment(np.array([row.slot]))
        if self._prefill is not None:
            self._seats.live[row.slot] = False
            row.used = row.prompt.length
            self._prefill.again(row)
        else:
            self._memory.state.clear(self._memory.slots([row.slot]))
            self._open([row], self._fail)

    # --- leaving ---

    def _leave(self, row: StreamRow) -> None:
        if self._seats.has(row):
            self._seats.vacate(row.slot)
        if self._prefill is not None:
            self._prefill.leave(row)

    def _drop(self, job: Job) -> None:
        self._joining.pop(job.id, None)
        if (row := self._rows.pop(job.id, None)) is not None:
            self._leave(row)
            self._sink.forget(job)
        job.release(self.name)
