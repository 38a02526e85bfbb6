"""A server that writes down when each request got how far: `python -m benchmarks.timeline_server serve ...`.

It is the server of `rhapsode serve` with a few methods wrapped. For every request it writes a line of JSON, the seconds
of each step, to the file that the environment variable TIMELINE names.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from rhapsode.cli.main import main
from rhapsode.engine.frame_stage import FrameStage
from rhapsode.engine.job import Job
from rhapsode.engine.prefill import Prefill
from rhapsode.engine.stream_stage import StreamStage
from rhapsode.serve.connection import HttpConnection
from rhapsode.serve.response.audio import SpeechResponse
from rhapsode.serve.response.delivery import Playback
from rhapsode.serve.service import Service

now_s = time.perf_counter


class GpuClock:
    """The moment of a CUDA event on the host's clock."""

    def __init__(self) -> None:
        self._base: torch.cuda.Event | None = None
        self._base_s = 0.0

    def event(self) -> torch.cuda.Event | None:
        """Records an event after what has been launched so far."""
        if not torch.cuda.is_available():
            return None
        if self._base is None:
            torch.cuda.synchronize()
            self._base = torch.cuda.Event(enable_timing=True)
            self._base.record()
            self._base.synchronize()
            self._base_s = now_s()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def at_s(self, event: torch.cuda.Event) -> float:
        assert self._base is not None
        return self._base_s + self._base.elapsed_time(event) / 1e3


class Timeline:
    """The first time of each step of each request."""

    def __init__(self, path: str) -> None:
        self._out = open(path, "a", buffering=1)  # noqa: SIM115 (it is open as long as the process lives)
        self._steps: dict[str, dict[str, Any]] = {}
        self._gpu = GpuClock()

    def begin(self, request_id: str, arrived_s: float) -> None:
        self._steps[request_id] = {"arrived": arrived_s}

    def mark(self, request_id: str, step: str, at: Any = None) -> None:
        steps = self._steps.get(request_id)
        if steps is not None and step not in steps:
            steps[step] = now_s() if at is None else at

    def event(self) -> Any:
        """The moment at which the GPU gets here; on a CPU, now."""
        return self._gpu.event() or now_s()

    def end(self, request_id: str) -> None:
        steps = self._steps.pop(request_id, None)
        if steps is not None:
            times = {step: at if isinstance(at, float) else self._gpu.at_s(at) for step, at in steps.items()}
            self._out.write(json.dumps(times) + "\n")


def wrap(owner: type, name: str, before: Callable[..., None] | None, after: Callable[..., None] | None = None) -> None:
    """Calls these functions with the arguments of a method, before and after it."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before(self, *args)
        result = method(self, *args, **kwargs)
        if after is not None:
            after(self, *args)
        return result

    setattr(owner, name, wrapped)


def install(timeline: Timeline) -> None:
    """Wraps what a request goes through until its first audio is written."""
    mark = timeline.mark

    def rows(step: str) -> Callable[..., None]:
        def note(prefill: Any, given: Any) -> None:
            event = timeline.event()
            for row in given:
                mark(row.job.id, step, event)

        return note

    def slots(step: str) -> Callable[..., None]:
        def note(stage: Any, launch: Any, *_: Any) -> None:
            for slot in launch.slots.tolist():
                row = stage._seats._rows[slot]
                if row is not None:
                    mark(row.job.id, step)

        return note

    def noted_launch(prefill: Any, given: Any) -> None:
        for row in given:
            mark(row.job.id, "prompt launched")
        rows("prompt begun")(prefill, given)

    wrap(HttpConnection, "on_message_begin", None, lambda c: c.scope["state"].__setitem__("arrived_s", now_s()))
    wrap(Job, "admit", lambda job, *_: mark(job.id, "admitted"))
    wrap(FrameStage, "receive", lambda stage, work: mark(work.job.id, "prepared"))
    wrap(FrameStage, "_enter", lambda stage, job, *_: mark(job.id, "in the loop"))
    wrap(Prefill, "_launch", noted_launch, rows("prompt done"))
    wrap(FrameStage, "_run", slots("frame launched"))
    wrap(FrameStage, "_landed", slots("frame landed"))
    wrap(StreamStage, "_run", slots("chunk launched"))
    wrap(StreamStage, "_landed", slots("chunk landed"))
    wrap(Job, "deliver", None, lambda job, *_: mark(job.id, "delivered"))
    wrap(Service, "speaking", lambda service, order, request_id, *_: mark(request_id, "parsed"))
    answer, get = SpeechResponse.answer, Playback.get

    async def timed_answer(self: SpeechResponse, scope: Any, receive: Any, send: Any) -> None:
        timeline.begin(self._id, scope["state"].get("arrived_s", now_s()))

        async def timed_send(message: Any) -> None:
            await send(message)
            if message.get("body"):
                mark(self._id, "written")
                timeline.end(self._id)

        await answer(self, scope, receive, timed_send)

    async def timed_get(self: Playback) -> bytes | None:
        data = await get(self)
        mark(self.speech.id, "taken")
        return data

    SpeechResponse.answer, Playback.get = timed_answer, timed_get  # type: ignore[method-assign]


if __name__ == "__main__":
    install(Timeline(os.environ["TIMELINE"]))
    sys.exit(main())
