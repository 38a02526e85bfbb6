"""The interface of all stages: an inbox, an outbox, start, stop, abort."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from rhapsode.engine.bell import Bell
from rhapsode.engine.job import Job
from rhapsode.engine.pace import Pace


class Work(NamedTuple):
    """A payload for a job. `part` is the number of its prompt in a long text, from 0."""

    job: Job
    payload: Any
    part: int = 0


class Opened(NamedTuple):
    """Says that frames for this job will come."""

    job: Job


class Text(NamedTuple):
    """More text for a running job; `final` closes it."""

    job: Job
    text: str
    final: bool


class Resume(NamedTuple):
    """More text of a running job has arrived: ask its script again for what comes next."""

    job: Job


class Drop(NamedTuple):
    """A job is over: the stage forgets it."""

    job: Job


Message = Work | Opened | Text | Resume | Drop


class Inbox:
    """Messages for one stage, from any thread. It needs no lock, since a deque is thread-safe."""

    def __init__(self, on_put: Callable[[], None]) -> None:
        self._messages: deque[Message] = deque()
        self._on_put = on_put

    def put(self, message: Message) -> None:
        self._messages.append(message)
        self._on_put()

    def drain(self, most: int | None = None) -> list[Message]:
        """Removes and returns all messages, or the first `most`."""
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
    """Sends a stage's results on. The pipeline sets where to."""

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
    """What a stage holds now, and what it has done since it started."""

    pages: int = 0
    pages_in_use: int = 0
    pages_shared: int = 0
    """Cache hits: pages of prompts that were found in the pool instead of computed."""
    steps: int = 0
    """Launches of the talker or burst; frames over steps is the mean batch of a talker."""
    frames: int = 0


class Stage(Protocol):
    """A step of a pipeline."""

    name: str
    inbox: Inbox
    outbox: Outbox

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def abort(self, job: Job) -> None:
        """Makes the stage forget this job soon. Once it has, it calls `job.release`."""

    def receive(self, work: Work) -> None:
        """Accepts work, in the sender's thread. Preparation that would hold up a device loop is done here."""


class TurnStage:
    """A stage without a thread of its own: a loop gives it turns."""

    works_inline = True
    """Whether a turn does its work itself, as on a CPU, instead of only launching it. Then long turns are normal."""

    def __init__(self, name: str, bell: Bell) -> None:
        """`bell`: wakes the loop that gives this stage its turns."""
        self.name, self.bell = name, bell
        self.inbox = Inbox(bell.ring)
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
        work.job.note_prepared()
        self.inbox.put(work)

    def turn(self) -> bool:
        """Launches what can be launched now; returns whether there was anything to do."""
        raise NotImplementedError

    def rest(self) -> None:
        """Gives back what is only needed while there is work. Called when there has been none for a while."""

    def jobs(self) -> list[Job]:
        """Returns all jobs that this stage holds."""
        raise NotImplementedError

    def _drop(self, job: Job) -> None:
        """Forgets a job and releases it."""
        raise NotImplementedError

    def usage(self) -> Usage:
        return Usage()

    def oldest_launch(self) -> int | None:
        """Returns the number of the oldest launch that the device has not ended; None if there is none."""
        return None

    @property
    def poll_s(self) -> float | None:
        """Seconds after which the loop should give the next turn without being woken; None: not needed."""
        return None
