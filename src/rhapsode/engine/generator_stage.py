"""Stages for opaque models that yield audio themselves: one generator per request, the most urgent listener first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rhapsode.device.sections import section
from rhapsode.engine.clock import clock_s
from rhapsode.engine.isolation import failure
from rhapsode.engine.job import Job
from rhapsode.engine.speech import STALLED_S, unread
from rhapsode.engine.stage import Drop, Text, TurnStage, Work
from rhapsode.models.base import Generator, GeneratorPrompt, TextSink
from rhapsode.types import Samples


@dataclass
class _Speaking:
    job: Job
    chunks: Iterator[Samples | None]
    feed: TextSink | None
    dry_at_s: float = 0.0
    parked: bool = False
    """It waits for more text."""
    stalled_s: float = 0.0
    """Since when its listener has not read; 0: it reads."""


class GeneratorStage(TurnStage):
    """Advances one generator per turn: that of the listener who runs out of audio first."""

    def __init__(self, name: str, model: Generator, sample_rate: int, unread_timeout_s: float) -> None:
        super().__init__(name)
        self._timeout_s = unread_timeout_s
        self._model = model
        self._sample_rate = sample_rate
        self._speaking: dict[str, _Speaking] = {}
        self._early: dict[str, list[Text]] = {}  # text that came before the prompt did

    def jobs(self) -> list[Job]:
        return [speaking.job for speaking in self._speaking.values()]

    def turn(self) -> bool:
        for message in self.inbox.drain():
            match message:
                case Work(job, prompt) if not job.over:
                    self._open(job, prompt)
                case Text(job) if not job.over:
                    self._take_text(message)
                case Drop(job):
                    self._drop(job)
        ready = [s for s in self._speaking.values() if not s.parked and not self._is_stalled(s)]
        if ready:
            self._advance(min(ready, key=lambda s: s.dry_at_s), len(ready))
        return bool(ready)

    @property
    def poll_s(self) -> float | None:
        return STALLED_S if any(s.stalled_s for s in self._speaking.values()) else None

    def _is_stalled(self, speaking: _Speaking) -> bool:
        """Whether the listener does not read; who does not for long is given up."""
        if not speaking.job.speech.full:
            speaking.stalled_s = 0.0
            return False
        speaking.stalled_s = speaking.stalled_s or clock_s()
        if clock_s() - speaking.stalled_s > self._timeout_s:
            speaking.job.fail(unread(self._timeout_s))
        return True

    def _open(self, job: Job, prompt: GeneratorPrompt) -> None:
        speaking = _Speaking(job, self._model.speak(prompt, job.seed), prompt.feed)
        self._speaking[job.id] = speaking
        for text in self._early.pop(job.id, []):
            self._take_text(text)

    def _take_text(self, message: Text) -> None:
        speaking = self._speaking.get(message.job.id)
        if speaking is None:
            self._early.setdefault(message.job.id, []).append(message)
        elif speaking.feed is not None:
            speaking.feed.push(message.text)
            if message.final:
                speaking.feed.close()
            speaking.parked = False

    def _advance(self, speaking: _Speaking, listeners: int) -> None:
        job, started_s = speaking.job, clock_s()
        try:
            with section("generator"):
                samples = next(speaking.chunks)
        except StopIteration:
            job.finish()
        except Exception as error:
            job.fail(failure(self.name, error))
        else:
            if samples is None:
                speaking.parked = True
                return
            job.frames += 1
            job.deliver(samples)
            played_s = samples.shape[1] / self._sample_rate
            self.pace.observe(listeners, clock_s() - started_s, played_s)
            speaking.dry_at_s = max(speaking.dry_at_s, clock_s()) + played_s
        if job.over:
            speaking.parked = True  # until the engine's Drop arrives

    def _drop(self, job: Job) -> None:
        self._early.pop(job.id, None)
        speaking = self._speaking.pop(job.id, None)
        close = getattr(speaking.chunks, "close", None) if speaking else None
        if close is not None:
            close()
        job.release(self.name)
