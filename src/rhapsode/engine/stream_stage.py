"""Streaming codecs: slot-indexed state, batched across requests, the listener nearest to silence first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.config import Deployment
from rhapsode.device.landing import LANDING_S, Landing
from rhapsode.device.launcher import Launcher
from rhapsode.device.sections import section
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.device.stream import FrameStream
from rhapsode.device.upload import upload
from rhapsode.engine.chunks import Choice, ChunkSchedule, Deadlines
from rhapsode.engine.job import Job
from rhapsode.engine.pcm16 import packed, unpacked
from rhapsode.engine.stage import Drop, Opened, TurnStage, Work, failure, isolate
from rhapsode.errors import ConfigError
from rhapsode.models.base import Codec

MOST_LAUNCHES = 4
"""Decodes under way before the host waits for the oldest."""
HELD_BACK_S = 0.002
"""How often to look whether a listener can wait no longer."""


@dataclass(frozen=True)
class _Launch:
    """Audio on its way to the host, and whose it is."""

    slots: NDArray[np.int64]
    jobs: list[Job | None]
    frames: int
    audio: Landing


class StreamStage(TurnStage):
    """Turns the frames of an incoming stream into samples for the listeners."""

    def __init__(
        self,
        name: str,
        codec: Codec,
        stream: FrameStream,
        deployment: Deployment,
        device: torch.device,
        sample_rate: int,
        needs_payload: bool,
    ) -> None:
        super().__init__(name)
        slots = deployment.limits.slots
        self._captured = deployment.graphs and device.type == "cuda"  # on a CPU it is arithmetic, not operators
        schedule = ChunkSchedule(deployment.chunks, self._captured or deployment.deterministic)
        self._codec = codec
        self._stream = stream
        self._deployment = deployment
        self._device = device
        # On a GPU the codec has a stream of its own, ahead of the talker's: first audio comes first. A frame the host
        # knows of has been written, and one is only overwritten once it has been read: the two need not wait.
        self._cuda = torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None
        self._frame_s = codec.hop / sample_rate
        self._needs_payload = needs_payload
        self._ladder = schedule.ladder
        self._deadlines = Deadlines(
            slots,
            schedule,
            deployment.chunks,
            self._frame_s,
            codec.lookahead_frames,
            fixed=deployment.deterministic,
            working=device.type == "cpu",
        )
        self._room = stream.capacity - schedule.largest - codec.lookahead_frames
        if self._room < 1:
            raise ConfigError(f"chunks.ring must be more than {stream.capacity - self._room} for these chunks.")
        self._most = min(deployment.chunks.batch, slots)
        self._table = SlotTable(slots, 0, device)
        self._state = codec.state(slots)
        fixed = self._most if deployment.deterministic else None
        self._launcher = Launcher(self._decode_on_device, slots, device, fixed)
        self._job_of: list[Job | None] = [None] * (slots + 1)
        self._live = np.zeros(slots + 1, np.bool_)
        self._payloads: dict[str, Any] = {}
        self._launches: deque[_Launch] = deque()
        self._held_back = False
        self.decodes = 0

    @property
    def poll_s(self) -> float | None:
        if self._launches:
            return LANDING_S
        return HELD_BACK_S if self._held_back else None

    def _on_stream(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self._cuda) if self._cuda else nullcontext()

    def start(self) -> None:
        if self._captured:
            with torch.inference_mode(), self._on_stream():
                for frames in self._ladder:
                    self._launcher.capture(self._most, frames, self._codec.lookahead_frames)

    def stop(self) -> None:
        for job in self.jobs():
            self._drop(job)

    def jobs(self) -> list[Job]:
        return [job for job in self._job_of if job is not None]

    @torch.inference_mode()
    def turn(self) -> bool:
        with self._on_stream():
            return self._turn()

    def _turn(self) -> bool:
        joining: dict[str, Job] = {}
        for message in self.inbox.drain():
            match message:
                case Opened(job) if not job.over:
                    self._job_of[job.slot] = joining[job.id] = job
                case Work(job, payload) if not job.over:
                    self._payloads[job.id] = payload
                    joining[job.id] = job
                case Drop(job):
                    joining.pop(job.id, None)
                    self._drop(job)
        if joining:
            self._begin([job for job in joining.values() if self._job_of[job.slot] is job])
        launched = self._decode()
        collected = 0
        while self._launches and (self._launches[0].audio.ready() or len(self._launches) > MOST_LAUNCHES):
            self._collect(self._launches.popleft())
            collected += 1
        self._finish_ended()
        return launched or collected > 0

    # --- joining ---

    def _begin(self, jobs: Sequence[Job]) -> None:
        """Frames of these are coming; each begins once its payload, if it needs one, is there too."""
        jobs = [job for job in jobs if not self._needs_payload or job.id in self._payloads]
        new = [job for job in jobs if not self._live[job.slot]]
        if new:
            self._table.join([SlotRow(job.slot, job.seed, (), 0.0, 0, 0.0, 0.0) for job in new])
            slots = upload(np.array([job.slot for job in new]), self._device)
            self._state.clear(slots)
            self._stream.rewind(slots.to(self._stream.device))
        for job in new:
            self._deadlines.open(job.slot, job.request.first_chunk_frames)
            self._live[job.slot] = True
        for job in jobs:
            if job.id in self._payloads:
                for _ in isolate([job], self._prime, self._fail):
                    pass

    def _prime(self, jobs: Sequence[Job]) -> None:
        (job,) = jobs
        slots = upload(np.array([job.slot]), self._device)
        with section("codec"):
            self._codec.open(self._payloads.pop(job.id), Rows(slots, self._table), self._state)

    # --- decoding ---

    def _decode(self) -> bool:
        live = np.flatnonzero(self._live)
        self._held_back = False
        if not len(live):
            return False
        stream = self._stream
        ready = stream.written[live] - stream.taken[live]
        choice = self._deadlines.choose(live, ready, stream.ended[live], self._room, self._most)
        if choice is None:
            self._held_back = bool(ready.any())
            return False
        for slots, audio in isolate(choice.slots.tolist(), lambda rows: self._launch(rows, choice), self._fail_slot):
            jobs = [self._job_of[slot] for slot in slots]
            self._launches.append(_Launch(np.asarray(slots), jobs, choice.frames, Landing(audio)))
        return True

    def _launch(self, slots: Sequence[int], choice: Choice) -> Tensor:
        which: NDArray[np.int64] = np.asarray(slots)
        audio = self._launcher(which, choice.frames, choice.ahead)
        self._stream.taken[which] += choice.frames
        self._deadlines.sent(Choice(which, choice.frames, choice.ahead), choice.frames * self._frame_s)
        self.decodes += 1
        return audio

    def _decode_on_device(self, slots: Tensor, frames: int, ahead: int) -> Tensor:
        """From frames in the ring to samples: what a graph captures."""
        there = slots.to(self._stream.device)
        window = self._stream.peek(there, frames + ahead).to(self._device)
        with section("codec"):
            audio = self._codec.decode(window, ahead, Rows(slots, self._table), self._state)
        self._stream.take(there, frames)
        self._table.advance(slots, frames)
        return packed(audio) if audio.is_cuda else audio.to(torch.float32)

    def _collect(self, launch: _Launch) -> None:
        audio = launch.audio.numpy()  # [B, channels, samples], packed on a GPU
        for slot, job, values in zip(launch.slots.tolist(), launch.jobs, audio, strict=True):
            if job is not None and self._job_of[slot] is job:
                self._stream.freed[slot] += launch.frames
                job.deliver(unpacked(values))  # a slow listener must not keep the whole batch
        self._stream.on_taken()

    def _finish_ended(self) -> None:
        stream = self._stream
        for slot in np.flatnonzero(self._live & stream.ended & (stream.freed == stream.written)):
            job = self._job_of[slot]
            assert job is not None
            self._live[slot] = False
            job.finish()

    # --- leaving ---

    def _fail(self, job: Job, error: BaseException) -> None:
        job.fail(failure(self.name, error))
        self._live[job.slot] = False

    def _fail_slot(self, slot: int, error: BaseException) -> None:
        job = self._job_of[slot]
        assert job is not None
        self._fail(job, error)

    def _drop(self, job: Job) -> None:
        self._payloads.pop(job.id, None)
        if self._job_of[job.slot] is job:
            self._live[job.slot] = False
            self._job_of[job.slot] = None
        job.release(self.name)
