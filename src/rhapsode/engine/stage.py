"""The one contract of all stages: an inbox, an outbox, start, stop, abort."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from rhapsode.engine.job import Job
from rhapsode.engine.pace import Pace


class Work(NamedTuple):
    """A payload for a job. `part` counts the prompts of a long text; the first is 0."""

    job: Job
    payload: Any
    part: int = 0


class Opened(NamedTuple):
    """Frames for this job will come."""

    job: Job


class Text(NamedTuple):
    """More text for a running job; `final` closes it."""

    job: Job
    text: str
    final: bool


class Resume(NamedTuple):
    """More is known of what a running job says next: ask its script again."""

    job: Job


class Drop(NamedTuple):
    """The job is over: forget it."""

    job: Job


Message = Work | Opened | Text | Resume | Drop


class Inbox:
    """Messages for one stage, from any thread. A deque needs no lock."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self.on_put: Callable[[], None] = lambda: None

    def put(self, message: Message) -> None:
        self._messages.append(message)
        self.on_put()

    def drain(self, most: int | None = None) -> list[Message]:
        """Returns all messages there are, or the first `most`."""
        count = len(self._messages)
        found: list[Message] = []
        for _ in range(count if most is None else min(most, count)):
            try:
                found.append(self._messages.popleft())
            except IndexError:  # another thread was faster
                break
        return found

    def __len__(self) -> int:
        return len(self._messages)


class Outbox:
    """Where a stage's results go; the pipeline wires it."""

    def __init__(self) -> None:
        self.payload_to: list[Callable[[Work], None]] = []
        self.frames_to: list[Inbox] = []
        self.entry: Callable[[Work], None] = lambda work: None

    def payload(self, work: Work) -> None:
        """Sends a result to the stages that come next."""
        if not work.job.over:
            for receive in self.payload_to:
                receive(work)

    def opened(self, job: Job) -> None:
        """Tells the stages that read this one's stream that frames will come."""
        for inbox in self.frames_to:
            inbox.put(Opened(job))

    def ask_for_part(self, work: Work) -> None:
        """Sends the rest of a long text to the first stages of the pipeline, to be prepared."""
        self.entry(work)


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
        """Forgets this job, soon and once; then says so with `job.release`."""

    def receive(self, work: Work) -> None:
        """Takes work in, from the sender's thread: what must not happen in a device loop is done here."""


class TurnStage:
    """A stage without a thread of its own: a loop gives it turns."""

    works_inline = True
    """Whether a turn does its work itself, as on a CPU, and does not only launch it: then long turns are normal."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inbox = Inbox()
        self.outbox = Outbox()
        self.pace = Pace()

    def start(self) -> None:
        """Allocates and warms up; called before the first turn."""

    def stop(self) -> None:
        """Frees everything; called after the last turn."""
        for job in self.jobs():
            self._drop(job)

    def abort(self, job: Job) -> None:
        self.inbox.put(Drop(job))

    def receive(self, work: Work) -> None:
        self.inbox.put(work)

    def wake(self) -> None:
        """Has the loop come by, if it sleeps."""
        self.inbox.on_put()

    def turn(self) -> bool:
        """Launches what can be launched now; False: nothing could."""
        raise NotImplementedError

    def jobs(self) -> list[Job]:
        """Everything this stage holds."""
        raise NotImplementedError

    def _drop(self, job: Job) -> None:
        """Forgets a job and releases it."""
        raise NotImplementedError

    def usage(self) -> Usage:
        return Usage()

    @property
    def poll_s(self) -> float | None:
        """Seconds after which the loop should come again without being woken; None: not needed."""
        return None
