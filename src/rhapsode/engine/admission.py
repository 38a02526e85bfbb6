"""Admission: a request is admitted only while all listeners can be served faster than real time."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from math import inf, isfinite

from rhapsode.config import Limits
from rhapsode.engine.clock import clock_s
from rhapsode.engine.job import Job
from rhapsode.engine.pace import SlowestPace
from rhapsode.types import FinishReason, SpeechRequest

HEADROOM, CPU_HEADROOM = 0.75, 0.6
"""The largest real-time factor that is planned for, on a GPU and on a CPU. The rest is for the prompts of new requests
and for other programs.

On a CPU, other programs and the HTTP server use the same cores, and fewer concurrent listeners cost no throughput."""
SPEECH_S, CHARACTER_S = 4.0, 0.065
"""First estimates of how long a request and one character last, until requests have ended."""
NEARLY = 0.1
"""Speech that lasts longer than expected is estimated to need this part of its expected length still."""
LEARNT = 0.1
"""The weight of an ended request in the moving averages of these estimates."""

PROMISE_S = 0.1
"""How long an estimated wait is reused before it is computed again."""


class Admission:
    """Decides which requests are admitted, and estimates when there will be room for more.

    A listener plays its audio while it is made (`SpeechRequest.real_time`). Requests without a listener have no
    deadline, but share the batches: they are admitted freely while no listener is being served, and by the same rule as
    listeners while one is. One request is always admitted, even if the machine is too slow for one listener.
    """

    def __init__(self, pace: SlowestPace, limits: Limits, headroom: float = HEADROOM) -> None:
        self._pace = pace
        self._headroom = headroom
        self._limits = limits
        self._in: dict[str, Job] = {}
        self._speeds: Counter[float] = Counter()  # of the admitted listeners
        self.slots_of: Counter[str] = Counter()
        """The slots in use, by client."""
        self._speech_s, self._character_s = SPEECH_S, CHARACTER_S
        self._promised_at_s, self._promised_s = -inf, 0.0

    @property
    def places(self) -> int:
        """How many concurrent listeners can get their audio faster than they play it, by the measured pace."""
        slots = self._limits.slots
        return self._pace.most(self._headroom, slots) if self._limits.real_time else slots

    def fits(self, request: SpeechRequest) -> bool:
        """Returns whether this request can be admitted: then it, and all requests admitted before, get their audio
        faster than they play it."""
        if not self._limits.real_time or not self._in:
            return True
        speed = max(self._speeds, default=0.0)
        if request.real_time:
            speed = max(speed, request.speed)
        if not speed:
            return True
        return self._keeps_up(len(self._in) + 1, speed) or self._keeps_up(self._reading() + 1, speed)

    def enter(self, job: Job) -> None:
        self._in[job.id] = job
        self.slots_of[job.client] += 1
        if job.request.real_time:
            self._speeds[job.request.speed] += 1

    def leave(self, job: Job) -> None:
        if self._in.pop(job.id, None) is None:
            return
        self.slots_of -= Counter([job.client])
        if job.request.real_time:
            self._speeds -= Counter([job.request.speed])

    def learn(self, job: Job) -> None:
        """Improves the estimates of how long speech lasts, in all and per character, with a request that has ended."""
        outcome, characters = job.outcome, len(job.request.text)
        if outcome is None or outcome.finish_reason is not FinishReason.STOP:
            return
        self._speech_s += LEARNT * (outcome.audio_s - self._speech_s)
        if not job.request.text_open:
            self._character_s += LEARNT * (outcome.audio_s / characters - self._character_s)

    def promised_s(self, queue: Iterable[Job]) -> float:
        """Returns `wait_s`, computed at most ten times a second: refusing many requests must not delay the admitted
        ones."""
        now_s = clock_s()
        if now_s - self._promised_at_s > PROMISE_S:
            self._promised_at_s, self._promised_s = now_s, self.wait_s(queue)
        return max(0.0, self._promised_s - (now_s - self._promised_at_s))

    def wait_s(self, queue: Iterable[Job]) -> float:
        """Returns an estimate of how long a request behind this queue would wait until it is admitted."""
        places = max(1, self.places)
        factor = self._pace.at(max(len(self._in), 1))
        factor = factor if isfinite(factor) else 1.0
        ends_s = [self._left_s(job) * factor for job in self._in.values()]
        heapq.heapify(ends_s)
        while len(ends_s) > places:  # more are admitted than there are places now: these are not replaced
            heapq.heappop(ends_s)
        for job in queue:
            starts_s = heapq.heappop(ends_s) if len(ends_s) >= places else 0.0
            heapq.heappush(ends_s, starts_s + self.expected_s(job.request) * factor)
        return ends_s[0] if len(ends_s) >= places else 0.0

    def expected_s(self, request: SpeechRequest) -> float:
        """Returns how long the speech of a request will be."""
        return self._speech_s if request.text_open else len(request.text) * self._character_s

    def _keeps_up(self, rows: int, speed: float) -> bool:
        return self._pace.at(rows) * speed <= self._headroom

    def _reading(self) -> int:
        """Returns how many admitted listeners are taking their audio.

        The others have stopped reading: nothing is made for them until they go on.
        """
        return sum(not job.speech.full for job in self._in.values())

    def _left_s(self, job: Job) -> float:
        expected_s = self.expected_s(job.request)
        return max(expected_s - job.spoken_s, NEARLY * expected_s)
