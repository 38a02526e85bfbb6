"""Stages that call a function, optionally batched, on threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import SimpleQueue
from typing import Any

from rhapsode.engine.isolation import failure, isolate
from rhapsode.engine.job import Job
from rhapsode.engine.loop import in_device_loop
from rhapsode.engine.right_of_way import of_device_loops
from rhapsode.engine.stage import Inbox, Outbox, Work
from rhapsode.models.base import traits_of
from rhapsode.waiting.wake_ups import hold


class CallStage:
    """Calls `function(payload)`, or `function([payload, ...])` where it takes batches.

    Payloads that the function calls quick (`Traits.is_quick`) are handled in the sender's thread, unless that is a
    device loop: passing them to another thread would take longer. Quick payloads that are sent together are handled
    when the last of them has arrived, so that the function can look ahead.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Any], Any],
        workers: int,
        batch: int,
        inside: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """`workers`: the number of threads that call the function. `batch`: the most payloads that one call gets.

        `inside` makes a context for each thread, such as a CUDA stream of its own.
        """
        self.name = name
        self._inside = inside
        self._arrived: SimpleQueue[None] = SimpleQueue()
        self.inbox = Inbox(self._wake_one)
        self.outbox = Outbox()
        self._function = function
        traits = traits_of(function)
        self._is_quick, self._look_ahead = traits.is_quick or _never, traits.look_ahead or _nothing
        self._batch = batch
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"rhapsode-{name}-{i}", daemon=True) for i in range(workers)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping = True
        while any(thread.is_alive() for thread in self._threads):
            for thread in self._threads:
                self._wake_one()  # not always this one
                thread.join(0.05)

    def abort(self, job: Job) -> None:
        """Releases the job at once: work for a job that is over is skipped, and a late result is dropped."""
        job.release(self.name)

    def receive(self, work: Work) -> None:
        if not self._is_quick(work.payload) or in_device_loop():
            self.inbox.put(work)
        elif not hold(self, (work,)):
            self._do([work])

    def wake(self, *works: Work) -> None:
        """Called at the end of a `wake_ups.held` block with the quick work that came within it: does all of it."""
        if len(works) > 1:
            with suppress(Exception):  # the invalid payload raises the error again in its own call
                self._look_ahead([work.payload for work in works])
        for work in works:
            self._do([work])

    def _wake_one(self) -> None:
        self._arrived.put(None)

    def _run(self) -> None:
        with self._inside():
            while not self._stopping:
                self._arrived.get()
                of_device_loops.give()
                self._do([message for message in self.inbox.drain(self._batch) if isinstance(message, Work)])

    def _do(self, works: Sequence[Work]) -> None:
        wanted = [work for work in works if not work.job.over]
        for done, results in isolate(wanted, self._call, self._fail):
            for work, result in zip(done, results, strict=True):
                try:
                    self.outbox.payload(Work(work.job, result, work.part))
                except Exception as error:  # the next stage failed in this thread, which has other requests to serve
                    self._fail(work, error)

    def _call(self, works: Sequence[Work]) -> Sequence[Any]:
        if self._batch > 1:
            return list(self._function([work.payload for work in works]))
        return [self._function(work.payload) for work in works]

    def _fail(self, work: Work, error: BaseException) -> None:
        work.job.fail(failure(self.name, error))


def _never(_: Any) -> bool:
    return False


def _nothing(_: Sequence[Any]) -> None:
    pass
