"""The outputs of a streaming stage: to the listener, or into the stream of the next stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.config import Limits
from rhapsode.device.marks import Mark, PaceChange, Silence, SpeakerChange
from rhapsode.device.stream import FrameStream
from rhapsode.engine.clock import Ints, ListenerClock, clock_s
from rhapsode.engine.job import Job
from rhapsode.engine.pcm16 import packed, unpacked
from rhapsode.engine.speech import STALLED_S, unread
from rhapsode.errors import GenerationFailed

UNLIMITED = np.iinfo(np.int64).max


class Sink(Protocol):
    """Takes the output of a streaming stage: first on the device, and on the host when it has landed."""

    @property
    def changes(self) -> int:
        """Counts the changes by other stages that `room` depends on. Listeners are not counted, but polled."""

    def open(self, jobs: Sequence[Job]) -> None:
        """Called with new requests, before any of their output."""

    def room(self) -> Ints:
        """Returns, for each slot, the number of frames whose output the sink can take now."""

    def on_device(self, slots: Tensor, output: Tensor, skip: Tensor | None, counts: Tensor | None) -> Tensor:
        """Part of the launch: stores the output on the device, and returns what is copied to the host."""

    def launched(self, slots: Ints, counts: Ints) -> None:
        """Called when a launch that makes the output of so many frames per row has started."""

    def landed(self, jobs: Sequence[Job | None], skip: Ints, counts: Ints, values: NDArray[Any]) -> None:
        """Called when the output is on the host. `None` stands for a row that has left since the launch."""

    def mark(self, job: Job, mark: Mark) -> None:
        """Called when all output before this mark, such as a pause, is on the host."""

    def end(self, job: Job) -> None:
        """Called when all output of this request is on the host: nothing more will come."""

    def forget(self, job: Job) -> None:
        """Called when a request has left the stage, for whatever reason."""

    @property
    def poll_s(self) -> float | None:
        """Seconds after which to look at `room` again; None: not needed."""


class ListenerSink:
    """Hands samples to the listeners, and pauses the rows whose listener does not read."""

    changes = 0

    def __init__(
        self, slots: int, hop: int, channels: int, sample_rate: int, clock: ListenerClock, limits: Limits
    ) -> None:
        self._hop = hop
        self._channels = channels
        self._sample_rate = sample_rate
        self._clock = clock
        self._timeout_s = limits.unread_timeout_s
        self._room = np.full(slots + 1, UNLIMITED)
        self._stalled: dict[int, tuple[Job, float]] = {}  # by slot: a job whose listener does not read, and since when

    def open(self, jobs: Sequence[Job]) -> None:
        slots = np.array([job.slot for job in jobs])
        self._clock.open(slots)
        self._room[slots] = UNLIMITED

    def room(self) -> Ints:
        for slot, (job, since_s) in list(self._stalled.items()):
            if not job.speech.full:
                self._room[slot] = UNLIMITED
                del self._stalled[slot]
            elif clock_s() - since_s > self._timeout_s:
                job.fail(unread(self._timeout_s))
        return self._room

    @property
    def poll_s(self) -> float | None:
        return STALLED_S if self._stalled else None

    def on_device(self, slots: Tensor, output: Tensor, skip: Tensor | None, counts: Tensor | None) -> Tensor:
        return packed(output) if output.is_cuda else output.to(torch.float32)

    def launched(self, slots: Ints, counts: Ints) -> None:
        self._clock.send(slots, (counts * self._hop / self._sample_rate).astype(np.float64))

    def landed(self, jobs: Sequence[Job | None], skip: Ints, counts: Ints, values: NDArray[Any]) -> None:
        for job, first, count, row in zip(jobs, skip.tolist(), counts.tolist(), values, strict=True):
            if job is not None and count:
                # A copy of its own: a slow listener must not keep the whole batch in memory.
                job.deliver(unpacked(row, first * self._hop, (first + count) * self._hop))
                if job.speech.full:
                    self._room[job.slot] = 0
                    self._stalled.setdefault(job.slot, (job, clock_s()))

    def mark(self, job: Job, mark: Mark) -> None:
        if isinstance(mark, Silence):
            self._clock.send(np.array([job.slot]), mark.seconds)
            job.deliver_silence(mark.seconds, self._channels, mark.is_pause)
        elif isinstance(mark, PaceChange):
            job.pace = mark.pace
        elif isinstance(mark, SpeakerChange):
            job.speaker = mark.speaker

    def end(self, job: Job) -> None:
        job.finish()

    def forget(self, job: Job) -> None:
        self._stalled.pop(job.slot, None)  # else its unread audio is kept until the slot has another listener


class StreamSink:
    """Puts frames into the stream of the next stage."""

    def __init__(self, stream: FrameStream, rate: int) -> None:
        self._stream = stream
        self._rate = rate

    @property
    def changes(self) -> int:
        return self._stream.changes

    def open(self, jobs: Sequence[Job]) -> None:
        self._stream.open(np.array([job.slot for job in jobs]))

    def room(self) -> Ints:
        return self._stream.room() // self._rate

    @property
    def poll_s(self) -> float | None:
        return None

    def on_device(self, slots: Tensor, output: Tensor, skip: Tensor | None, counts: Tensor | None) -> Tensor:
        """Returns whether each row's output is finite."""
        if skip is None or counts is None:
            counts = torch.full_like(slots, output.shape[1] // self._rate)
            skip = torch.zeros_like(slots)
        self._stream.put_run(slots, output, skip * self._rate, counts * self._rate)
        return torch.isfinite(output.flatten(1)).all(1)

    def launched(self, slots: Ints, counts: Ints) -> None:
        self._stream.promise(slots, counts * self._rate)

    def landed(self, jobs: Sequence[Job | None], skip: Ints, counts: Ints, values: NDArray[Any]) -> None:
        here = [(job.slot, count) for job, count in zip(jobs, counts.tolist(), strict=True) if job is not None]
        if here:
            slots, arrived = np.array(here).T
            self._stream.commit(slots, arrived * self._rate, arrived * self._rate)
        for job in (job for job, finite in zip(jobs, values.tolist(), strict=True) if not finite and job is not None):
            job.fail(GenerationFailed("the model's output is not finite."))

    def mark(self, job: Job, mark: Mark) -> None:
        self._stream.mark(job.slot, mark)

    def end(self, job: Job) -> None:
        self._stream.end(job.slot)

    def forget(self, job: Job) -> None:
        pass
