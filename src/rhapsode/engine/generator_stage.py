"""Stages for opaque models that yield audio themselves: one generator per request, the most urgent listener first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rhapsode.device.sections import section
from rhapsode.engine.bell import Bell
from rhapsode.engine.clock import clock_s
from rhapsode.engine.isolation import failure
from rhapsode.engine.job import Job
from rhapsode.engine.speech import STALLED_S, unread
from rhapsode.engine.stage import Drop, Resume, Text, TurnStage, Work
from rhapsode.models.base import Following, Generator, GeneratorPrompt, TextSink
from rhapsode.types import Samples, SpeechRequest


@dataclass
class _Speaking:
    job: Job
    chunks: Iterator[Samples | None]
    feed: TextSink | None
    dry_at_s: float = 0.0
    parked: bool = False
    """Its generator waits for more text, or has ended or failed: it is not advanced."""
    stalled_s: float = 0.0
    """When its listener stopped reading; 0: the listener reads."""
    part: int = 0
    """How many sections of the same request came before."""
    over: bool = False
    """Its generator has ended; the next section is awaited."""
    asked: bool = False
    """The next section has been asked for, or there is none."""


class GeneratorStage(TurnStage):
    """Advances one generator per turn: that of the listener who will run out of audio first."""

    def __init__(
        self, name: str, bell: Bell, model: Generator, sample_rate: int, unread_timeout_s: float, channels: int = 1
    ) -> None:
        super().__init__(name, bell)
        self._channels = channels
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
                case Work(job, prompt, part) if not job.over:
                    self._open(job, prompt, part)
                case Text(job) if not job.over:
                    self._take_text(message)
                case Resume(job) if not job.over:
                    self._resume(job)
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
        """Returns whether the listener has stopped reading. If that lasts too long, fails the request."""
        if not speaking.job.speech.full:
            speaking.stalled_s = 0.0
            return False
        speaking.stalled_s = speaking.stalled_s or clock_s()
        if clock_s() - speaking.stalled_s > self._timeout_s:
            speaking.job.fail(unread(self._timeout_s))
        return True

    def _open(self, job: Job, prompt: GeneratorPrompt, part: int) -> None:
        section = job.script.current
        job.pace = section.pace
        if section.pause_s:
            job.deliver_silence(section.pause_s, self._channels, is_pause=True)
        job.speaker = section.speaker
        seed = (job.seed + section.draw) % 2**63
        self._speaking[job.id] = _Speaking(job, self._model.speak(prompt, seed), prompt.feed, part=part)
        for text in self._early.pop(job.id, []):
            self._take_text(text)

    def _take_text(self, message: Text) -> None:
        speaking = self._speaking.get(message.job.id)
        if speaking is None or speaking.over:
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
            speaking.over = speaking.parked = True
            self._go_on(speaking)
        except Exception as error:
            job.fail(failure(self.name, error))
        else:
            if samples is None:
                speaking.parked = True
                return
            job.frames += 1
            job.note_first_frame()
            job.deliver(samples)
            played_s = samples.shape[1] / self._sample_rate
            self.pace.observe(listeners, clock_s() - started_s, played_s)
            speaking.dry_at_s = max(speaking.dry_at_s, clock_s()) + played_s
        if job.over:
            speaking.parked = True  # until the engine's Drop arrives

    def _resume(self, job: Job) -> None:
        speaking = self._speaking.get(job.id)
        if speaking is not None and speaking.over and not speaking.asked:
            self._go_on(speaking)

    def _go_on(self, speaking: _Speaking) -> None:
        """Asks for the next section, or ends the request if there is none."""
        job = speaking.job
        request = job.script.next()
        if request is Following.NOT_YET:
            return
        speaking.asked = True
        if isinstance(request, SpeechRequest):
            self.outbox.ask_for_part(Work(job, request, speaking.part + 1))
            if request.text_open and job.script.current.closed:
                self._early.setdefault(job.id, []).append(Text(job, "", final=True))
            return
        if job.script.tail_s:
            job.deliver_silence(job.script.tail_s, self._channels, is_pause=True)
        job.finish()

    def _drop(self, job: Job) -> None:
        self._early.pop(job.id, None)
        speaking = self._speaking.pop(job.id, None)
        close = getattr(speaking.chunks, "close", None) if speaking else None
        if close is not None:
            close()
        job.release(self.name)
