"""Streaming stages: they process the frames of a stream, batched across requests, the most urgent listener first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.config import Deployment
from rhapsode.device.buckets import batch_sizes
from rhapsode.device.marks import SegmentEnd
from rhapsode.device.memory import SlotMemory
from rhapsode.device.ragged import LaunchSizes
from rhapsode.device.sections import section
from rhapsode.device.slots import SlotRow
from rhapsode.device.stream import FrameStream
from rhapsode.engine.block_grid import BlockGrid
from rhapsode.engine.changes import Changes
from rhapsode.engine.device_stage import DeviceStage, Launch, Prepared
from rhapsode.engine.growth import plan_pages
from rhapsode.engine.isolation import isolate
from rhapsode.engine.job import Job
from rhapsode.engine.planner import Choice, Planner, Ready
from rhapsode.engine.row import StreamRow
from rhapsode.engine.sink import Sink
from rhapsode.engine.stage import Drop, Message, Opened, Work
from rhapsode.errors import InvalidRequest
from rhapsode.models.base import StreamWorker, traits_of

MOST_IN_FLIGHT = 4
"""The most launches in flight; the next one waits until one of them has landed."""
HELD_BACK_S = 0.002
"""How often to check whether a listener can wait no longer, while no launch is chosen."""


class StreamStage(DeviceStage[StreamRow]):
    """Turns the frames of an incoming stream into samples or into frames of another stream."""

    def __init__(
        self,
        name: str,
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
        """`ladder`: the sizes of launches, in blocks. `rate`: positions in the worker's own KV cache per frame."""
        reach, device = worker.reach, memory.device
        allowed = traits_of(worker).most_rows or deployment.chunks.batch
        most = min(allowed, deployment.chunks.batch, deployment.limits.slots)
        given, columns = (name, worker, deployment, memory), 1 if reach.plain else 4
        super().__init__(*given, most_rows=most, columns=columns, stream=stream, frame_s=frame_s)
        self._reach = reach
        self._source, self._sink = source, sink
        self._planner, self._ladder = planner, ladder
        self._most = most
        self._rate = rate
        self._needs_payload = needs_payload
        self._spare = source.capacity - ladder[-1] * reach.granularity - reach.context
        self._rows: dict[str, StreamRow] = {}
        self._joining: dict[str, StreamRow] = {}  # those of `_rows` that have not begun
        self._grid = BlockGrid(deployment.limits.slots, source, reach)
        self._held_back = self._looks = False
        self._changes = Changes(lambda: source.changes + sink.changes, HELD_BACK_S)
        self._captured = deployment.graphs and device.type == "cuda"  # on a CPU the time goes into arithmetic
        rows = [most] if deployment.deterministic else batch_sizes(most)
        if self._prefill is None:  # rows join when their streams begin
            memory.on_join = lambda slots: source.rewind(slots.to(source.device))
        self._sizes = LaunchSizes([n * reach.granularity for n in ladder], rows) if self._captured else None

    @property
    def poll_s(self) -> float | None:
        polls = (super().poll_s, self._sink.poll_s, HELD_BACK_S if self._held_back else None)
        return min((s for s in polls if s is not None), default=None)

    def start(self) -> None:
        if self._captured:
            with torch.inference_mode(), self._on_stream():
                self._capture_prefill()
                for blocks in self._ladder:
                    for seen in {0, self._grid.kept_ahead}:
                        self._launcher.capture(self._most, blocks * self._reach.granularity, seen)
                self._launcher.reserve_landings(MOST_IN_FLIGHT)

    def jobs(self) -> list[Job]:
        return [row.job for row in self._rows.values()]

    # --- joining ---

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
            if self._row_of[row.slot] is row:  # its frames have begun before the payload
                self._open([row])

    def _start_prefill(self, row: StreamRow) -> None:
        """Adds a row to prefill once the stage before has given it pages, so that no two requests block each other."""
        if self._prefill is not None and row.opened and row.arrived:
            self._prefill.add(row)

    def _joined(self, rows: Sequence[StreamRow]) -> None:
        slots = np.array([row.slot for row in rows])
        lengths = np.array([row.prompt.length for row in rows])
        self._memory.table.place(slots, lengths, np.zeros_like(lengths))
        self._changes.note()
        for row in rows:
            row.prefilled = True
            self._live[row.slot] = self._row_of[row.slot] is row  # a row that restarts for a new segment is live again

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
            self._row_of[row.slot] = row
            self._live[row.slot] = True
            self.outbox.opened(row.job)
        self._open(ready)

    def _has_all(self, row: StreamRow) -> bool:
        has_all = row.prefilled if self._prefill is not None else row.arrived or not self._needs_payload
        return has_all and not row.job.over

    def _open(self, rows: Sequence[StreamRow]) -> None:
        """Has the worker prepare these slots with their payloads: one by one in deterministic mode, else together."""
        rows = [row for row in rows if row.payload is not None]
        for group in [[row] for row in rows] if self._deployment.deterministic else [rows]:
            list(isolate(group, self._open_on_device, self._fail))

    def _open_on_device(self, rows: Sequence[StreamRow]) -> None:
        if self._traits.open is not None:
            batch = self._memory.rows([row.slot for row in rows])
            with section("codec"):
                self._traits.open([row.payload for row in rows], batch, self._memory.state, self._sizes)

    # --- working ---

    def _launch_next(self) -> bool:
        self._looks = self._changes.look() or self.works_inline
        if not self._looks:
            self._held_back = True
            return False
        self._begin_ready()
        passed = self._pass_marks()
        moved = passed if len(self._in_flight) >= MOST_IN_FLIGHT else super()._launch_next() or passed
        if moved:
            self._changes.note()
        return moved

    def _next(self) -> Launch | None:
        live = np.flatnonzero(self._live)
        self._held_back = False
        if not len(live):
            return None
        source = self._source
        available, closing = source.available(live), source.closing(live)
        blocks = self._grid.whole(live, available, closing)
        blocks = np.minimum(blocks, self._sink.room()[live] // self._reach.granularity)
        if self._growth is not None:
            blocks = self._growth.serve([self._at(slot) for slot in live.tolist()], blocks, self._fail)
        ready = Ready(live, blocks, closing, available >= self._spare, len(self._joining))
        choice = self._planner.choose(ready, self._most)
        if source.lead:
            source.ask(live if choice is None else np.setdiff1d(live, choice.slots))
        if choice is None:
            self._held_back = bool(blocks.any())
            return None
        return self._grid.launch(choice)

    def _run(self, launch: Launch) -> None:
        self._source.wait_on_device()
        super()._run(launch)

    def _on_device(self, inputs: Tensor, *statics: int) -> Tensor:
        """Reads frames from the source, runs the worker, and passes its output to the sink."""
        slots, (due, seen) = inputs[:, 0], statics
        there, plain = self._source.device, self._reach.plain
        window = self._source.window(slots.to(there), due, None if plain else inputs[:, 1:].to(there), seen)
        with section("codec"):
            output: Tensor = self._worker.decode(window.to(slots.device), self._memory.rows(slots), self._memory.state)
        counts = None if plain else inputs[:, 2]
        values = self._sink.on_device(slots, output, None if plain else inputs[:, 1], counts)
        moved: Tensor | int = due if counts is None else counts
        self._source.advance(slots.to(there), moved if isinstance(moved, int) else moved.to(there))
        self._memory.table.advance(slots, moved, self._rate)
        return values

    def _shows_pace(self, launch: Launch) -> bool:
        return not self.pace.known or self._grid.is_usual(launch, self._timed_frame_s)

    def _launched(self, launch: Launch) -> None:
        _, counts = launch.ragged()
        self._source.consume(launch.slots, counts)
        self._sink.launched(launch.slots, counts)
        self._planner.launched(Choice(launch.slots, launch.statics[0] // self._reach.granularity))
        self._grid.launched(launch)
        if self._growth is not None:
            self._growth.launched([self._at(slot) for slot in launch.slots.tolist()], launch.statics[0] * self._rate)

    def _landed(self, launch: Launch, current: NDArray[np.bool_], values: NDArray[Any]) -> None:
        skip, counts = launch.ragged()
        jobs = [self._at(slot).job if here else None for slot, here in zip(launch.slots.tolist(), current, strict=True)]
        self._sink.landed(jobs, skip, counts, values)
        self._source.release(launch.slots[current], counts[current])

    def _collect(self) -> bool:
        collected = super()._collect()
        if not (collected or self._looks):
            return False
        live = np.flatnonzero(self._live)
        ended = live[self._source.exhausted(live)].tolist()
        for slot in ended:
            self._live[slot] = False
            self._free_pages(self._at(slot))
            self._sink.end(self._at(slot).job)
        if collected or ended:
            self._changes.note()
        return collected or bool(ended)

    def _pass_marks(self) -> bool:
        live = np.flatnonzero(self._live)
        reached = self._source.at_mark(live).tolist()
        for slot in reached:
            row, mark = self._at(slot), self._source.pass_mark(slot)
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
            self._live[row.slot] = False
            row.used = row.prompt.length
            self._prefill.again(row)
        else:
            self._memory.state.clear(self._memory.slots([row.slot]))
            self._open([row])

    # --- leaving ---

    def _drop(self, job: Job) -> None:
        self._joining.pop(job.id, None)
        if (row := self._rows.pop(job.id, None)) is not None:
            self._leave(row)
            self._sink.forget(job)
        job.release(self.name)
