"""The one contract of all stages: an inbox, an outbox, start, stop, abort."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rhapsode.engine.job import Job
from rhapsode.errors import GenerationFailed, RhapsodeError

log = logging.getLogger("rhapsode.engine")

Row = TypeVar("Row")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Work:
    """A payload for a job."""

    job: Job
    payload: Any


@dataclass(frozen=True)
class Opened:
    """Frames for this job will come."""

    job: Job


@dataclass(frozen=True)
class Text:
    """More text for a running job; `final` closes it."""

    job: Job
    text: str
    final: bool


@dataclass(frozen=True)
class Drop:
    """The job is over: forget it."""

    job: Job


Message = Work | Opened | Text | Drop


class Inbox:
    """Messages for one stage, from any thread."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._changed = threading.Condition()
        self.on_put: Callable[[], None] = lambda: None

    def put(self, message: Message) -> None:
        with self._changed:
            self._messages.append(message)
            self._changed.notify()
        self.on_put()

    def drain(self) -> list[Message]:
        """All messages there are, at once."""
        with self._changed:
            messages = list(self._messages)
            self._messages.clear()
            return messages

    def wait(self, most: int) -> list[Message]:
        """Up to `most` messages, as soon as there is one; none if woken without any."""
        with self._changed:
            if not self._messages:
                self._changed.wait()
            return [self._messages.popleft() for _ in range(min(most, len(self._messages)))]

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._messages)


class Outbox:
    """Where a stage's results go; wired by the pipeline."""

    def __init__(self) -> None:
        self.payload_to: list[Callable[[Job, Any], None]] = []
        self.frames_to: list[Inbox] = []

    def payload(self, job: Job, value: Any) -> None:
        if not job.over:
            for receive in self.payload_to:
                receive(job, value)

    def opened(self, job: Job) -> None:
        for inbox in self.frames_to:
            inbox.put(Opened(job))


@dataclass(frozen=True)
class Usage:
    """What a stage holds, and has done since it started."""

    pages: int = 0
    pages_in_use: int = 0
    pages_shared: int = 0
    """Pages that were found instead of computed."""
    steps: int = 0
    """Launches of the talker; frames over steps is the mean batch."""
    frames: int = 0


class Stage(Protocol):
    """A step of a pipeline."""

    name: str
    inbox: Inbox
    outbox: Outbox

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def abort(self, job: Job) -> None:
        """Forget this job, soon and once; then tell it so with `job.release`."""


class TurnStage:
    """A stage without a thread of its own: a loop gives it turns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inbox = Inbox()
        self.outbox = Outbox()

    def start(self) -> None:
        """Allocate and warm up; called before the first turn."""

    def stop(self) -> None:
        """Let go of everything; called after the last turn."""

    def abort(self, job: Job) -> None:
        self.inbox.put(Drop(job))

    def wake(self) -> None:
        """Have the loop come by, if it sleeps."""
        self.inbox.on_put()

    def turn(self) -> bool:
        """Launch what can be launched now; False: nothing could."""
        raise NotImplementedError

    def jobs(self) -> list[Job]:
        """Everything this stage holds."""
        raise NotImplementedError

    def usage(self) -> Usage:
        return Usage()

    @property
    def poll_s(self) -> float | None:
        """Something will be there in a moment: come again after so long without being woken."""
        return None


def failure(stage: str, error: BaseException) -> RhapsodeError:
    """The typed error a listener gets for whatever a stage raised."""
    if isinstance(error, RhapsodeError):
        return error
    log.error("stage '%s' failed", stage, exc_info=error)
    return GenerationFailed(f"the '{stage}' stage failed on this request ({type(error).__name__}).")


def isolate(
    rows: Sequence[Row],
    launch: Callable[[Sequence[Row]], Result],
    fail: Callable[[Row, BaseException], None],
) -> Iterator[tuple[Sequence[Row], Result]]:
    """Run a batch; where a row is reported as bad, run the others without it.

    A `RhapsodeError` says that no slot was touched, so every row can be tried alone. After any other error the state
    of these rows cannot be trusted: all of them fail.
    """
    try:
        result = launch(rows)
    except RhapsodeError as error:
        if len(rows) == 1:
            fail(rows[0], error)
            return
    except Exception as error:
        for row in rows:
            fail(row, error)
        return
    else:
        yield rows, result
        return
    for row in rows:
        yield from isolate([row], launch, fail)
