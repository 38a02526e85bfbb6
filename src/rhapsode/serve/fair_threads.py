"""Threads that clients share fairly, for work whose time depends on what a client sent."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from rhapsode.errors import Busy
from rhapsode.waiting.line import WaitingLine

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(eq=False)
class _Work:
    client: str
    call: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class FairThreads:
    """Runs work in threads: next is the first of the client who has the fewest threads.

    The line has `waiting` places. When it is full, the newest work of the client who has most there gives way to that
    of one who has less; otherwise new work is refused. Thread-safe.
    """

    def __init__(self, name: str, what: str, *, threads: int, each: int, waiting: int) -> None:
        """`each`: threads that one client may have at once. `what` says in errors what is waiting."""
        self._threads = ThreadPoolExecutor(threads, name)
        self._what = what
        self._most, self._each, self._places = threads, each, waiting
        self._line = WaitingLine[_Work]()
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()

    def submit(self, client: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Returns the future result of a call. Raises `Busy` if the line is full, as the future does if the call has to
        give its place to that of another client. A future that is cancelled leaves the line."""
        work = _Work(client, lambda: call(*args, **kwargs))
        weak = weakref.ref(work)  # a cycle would keep what was sent, and the result, until the garbage collector runs
        work.future.add_done_callback(lambda future: self._leave(weak()))
        displaced = None
        with self._lock:
            self._line.add(work)
            self._start()
            if len(self._line) > self._places:
                self._line.remove(work)
                displaced = self._line.displaced_by(client)
                if displaced is None:
                    raise self._full()
                self._line.remove(displaced)
                self._line.add(work)
        if displaced is not None and displaced.future.set_running_or_notify_cancel():
            displaced.future.set_exception(self._full())
        return work.future

    def close(self) -> None:
        """Drops what waits, and ends the threads."""
        with self._lock:
            waiting = list(self._line)
        for work in waiting:
            work.future.cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _full(self) -> Busy:
        return Busy(f"too many {self._what} are waiting already.")

    def _start(self) -> None:
        """Starts what may run now."""
        while self._running.total() < self._most and (work := self._line.next(self._running)) is not None:
            if self._running[work.client] >= self._each:
                return
            self._line.remove(work)
            self._running[work.client] += 1
            self._threads.submit(self._run, work)

    def _run(self, work: _Work) -> None:
        _call(work.future, work.call)
        with self._lock:
            self._running[work.client] -= 1
            self._running += Counter()  # forgets clients without threads
            self._start()

    def _leave(self, work: _Work | None) -> None:
        if work is not None:
            with self._lock:
                self._line.remove(work)


def _call(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
        del future, call  # the error has this frame
    else:
        future.set_result(result)
