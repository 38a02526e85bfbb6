"""The engine: checks and admits requests, runs them through a pipeline, and cleans up after each."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Self

from rhapsode.checking.reading import settings_of
from rhapsode.checking.request import check_length, checked
from rhapsode.config import Deployment
from rhapsode.device.gpu_memory import device_bytes
from rhapsode.engine.admission import CPU_HEADROOM, HEADROOM, Admission
from rhapsode.engine.alignment import Alignment
from rhapsode.engine.job import Job, Life
from rhapsode.engine.load import Load
from rhapsode.engine.loop import Underway
from rhapsode.engine.pipeline import Pipeline
from rhapsode.engine.script import SpeechScript
from rhapsode.engine.source import Source
from rhapsode.engine.speech import Speech
from rhapsode.engine.stage import Work
from rhapsode.errors import Busy, InvalidRequest, RhapsodeError, Unavailable
from rhapsode.models.base import ModelSpec, traits_of
from rhapsode.models.describe import describe
from rhapsode.text.lexicon import Lexicon
from rhapsode.text.phonemes.table import read_table
from rhapsode.types import Clip, Outcome, SpeechRequest
from rhapsode.waiting.line import WaitingLine

log = logging.getLogger("rhapsode.engine")


class Engine:
    """One model that speaks for many listeners at once: `submit` a request, and iterate over what it returns."""

    def __init__(
        self,
        spec: ModelSpec,
        deployment: Deployment,
        source: Source | None = None,
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        before_memory: Callable[[], None] = lambda: None,
    ) -> None:
        """`before_memory` is called after the weights are loaded and before the free memory is measured."""
        source = source or Source()
        self.spec = spec
        self.info = describe(spec, source.checkpoint, source.config, deployment.options)
        self.lexicon = Lexicon.read(deployment.lexicon)
        self.alignment = Alignment(deployment, self.info)
        self._on_outcome = on_outcome
        self.pipeline = Pipeline(spec, source, deployment, before_memory)
        self.deployment = self.pipeline.deployment
        self._lock = threading.RLock()
        self._free_slots = list(range(self.deployment.limits.slots))[::-1]
        self._queue = WaitingLine[Job]()
        self._jobs: dict[str, Job] = {}
        self._text_chars: dict[str, int] = {}
        self._serial = itertools.count()
        self._running = False
        headroom = CPU_HEADROOM if self.pipeline.uses_cores else HEADROOM
        self._admission = Admission(self.pipeline.pace(self._reconsider), self.deployment.limits, headroom)

    def start(self) -> Self:
        if self.info.phonemes:
            read_table()  # else the first request would wait for it
        self.pipeline.start()
        self._running = True
        return self

    def stop(self) -> None:
        """Stops; requests that still run fail with an error."""
        with self._lock:
            was_running, self._running = self._running, False
            jobs = list(self._jobs.values())
        for job in jobs:
            job.fail(Unavailable("the engine was stopped."))
        if was_running:
            self.pipeline.stop()
        self.alignment.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- what others call: submit, append, abort, embed, load ---

    def read(self, request: SpeechRequest) -> SpeechScript:
        """Checks a request and prepares its text, without starting it. A long text takes long: use another thread."""
        return self.script(checked(request, self.spec, self.info, self.deployment.limits))

    def script(self, request: SpeechRequest) -> SpeechScript:
        """Prepares the text of a request that `validate.checked` has returned, without starting it."""
        settings = settings_of(request, self.info, self.lexicon)
        words = self.alignment.words_of(request, settings)
        limits = self.deployment.limits
        return SpeechScript(request, settings, limits.max_text_chars, words, limits.max_positions)

    def submit(
        self,
        request: SpeechRequest | SpeechScript,
        request_id: str | None = None,
        speech_type: Callable[..., Speech] = Speech,
        client: str = "",
    ) -> Speech:
        """Checks a request and starts it, or puts it into the queue. Returns the speech, which gives the audio as it is
        made. Raises an error at once if the request is not valid or the queue is full.

        A `SpeechScript` is a request that was checked and whose text was prepared before (`read`). `speech_type` makes
        the object that is returned. Slots and places in the queue are shared fairly among clients: in a full queue, a
        request of the `client` who has the most there gives way to one of a client who has fewer.
        """
        script = request if isinstance(request, SpeechScript) else self.read(request)
        request = script.request
        request_id = request_id or f"speech-{next(self._serial)}-{secrets.token_hex(4)}"
        job = Job(request_id, request, self.spec.sample_rate, self._on_over, self._on_free, script, client)
        limit_s = self.deployment.limits.max_unread_s
        job.speech = speech_type(request_id, self.spec.sample_rate, self.spec.channels, self, limit_s)
        if script.words is not None:
            self.alignment.tap(job, script.words)
        with self._lock:
            if not self._running:
                raise Unavailable("the engine is not running.")
            if request_id in self._jobs:
                raise InvalidRequest(f"a request with the id '{request_id}' is still running.")
            displaced = None
            if len(self._queue) >= self.deployment.limits.max_queue and self._is_full_for(request):
                displaced = self._queue.displaced_by(client)
                busy = self._queue_full()
                if displaced is None:
                    raise busy
                self._queue.remove(displaced)
            self._jobs[request_id] = job
            self._text_chars[request_id] = len(request.text)
            self._queue.add(job, self._admission.expected_s(job.request))
            self._admit()
        if displaced is not None:
            displaced.fail(busy)
        return job.speech

    def append(self, request_id: str, text: str, final: bool = False) -> None:
        """Adds text to a running request that was submitted with `text_open`; `final`: no more will come. Does nothing
        if the request has ended."""
        with self._lock:
            job = self._jobs.get(request_id)
            if job is None:
                return  # it ended while the text was on its way
            if not job.request.text_open or request_id not in self._text_chars:
                raise InvalidRequest("the text of this request is closed.", param="input")
            chars = self._text_chars[request_id] + len(text)
            check_length(chars, self.deployment.limits)
            if final:
                del self._text_chars[request_id]
            else:
                self._text_chars[request_id] = chars
        try:
            self._append(job, text, final)
        except RhapsodeError as error:
            job.fail(error)
            raise

    def abort(self, request_id: str) -> None:
        """Ends a request, whether it is queued or running. Does nothing if it is unknown or has ended already."""
        job = self._jobs.get(request_id)
        if job is not None:
            job.abort()

    def embed(self, clip: Clip) -> tuple[float, ...]:
        """Computes the speaker embedding of a recording, in the form of `Voice.embedding`. Blocks until it is done."""
        embedders = [stage.name for stage in self.spec.pipeline if stage.embeds]
        if not self.info.can.embedding or not embedders:
            raise InvalidRequest(f"{self.info.title} makes no speaker embeddings.", param="voice")
        embed = traits_of(self.pipeline.workers[embedders[0]]).embed
        assert embed is not None  # `check_worker` has seen it
        return embed(clip)

    def load(self) -> Load:
        """Returns how full the engine is, and its totals."""
        with self._lock:
            slots = self.deployment.limits.slots
            in_use, queued, places = slots - len(self._free_slots), len(self._queue), self._admission.places
        return Load(
            slots=slots,
            slots_in_use=in_use,
            queued=queued,
            places=places,
            references=self.pipeline.references.stats(),
            slow_turns=self.pipeline.slow_turns(),
            longest_turns_s=self.pipeline.longest_turns_s(),
            device_bytes=device_bytes(),
            **vars(self.pipeline.usage()),
        )

    def unfinished(self) -> list[Underway]:
        """Returns the turns and launches that have begun and not ended."""
        return self.pipeline.unfinished()

    def forget_turns(self) -> None:
        """Resets the counts of slow turns, as those of a warm-up delayed no listener."""
        self.pipeline.forget_turns()

    # --- inside ---

    def _is_full_for(self, request: SpeechRequest) -> bool:
        return not self._free_slots or bool(self._queue) or not self._admission.fits(request)

    def _queue_full(self) -> Busy:
        wait_s = self._admission.promised_s(self._queue)
        return Busy(f"{len(self._queue)} requests are waiting already.", retry_after_s=wait_s)

    def _admit(self, slots_of: Mapping[str, int] | None = None) -> None:
        """Admits requests of the queue. `slots_of` counts the slots of each client if not those in use now count."""
        while self._free_slots and (job := self._queue.next(slots_of or self._admission.slots_of)) is not None:
            slots_of = None
            if not self._admission.fits(job.request):
                return
            self._queue.remove(job)
            slot = self._free_slots.pop()
            if job.admit(slot, self.pipeline.stages):
                self._admission.enter(job)
                self._begin(job)
            else:
                self._free_slots.append(slot)

    def _reconsider(self) -> None:
        """Admits queued requests if the pace that was just measured allows it."""
        if self._queue:
            with self._lock:
                if self._running:
                    self._admit()

    def _begin(self, job: Job) -> None:
        """Starts a job: sends the first section of its text to the pipeline. If there is none yet, `append` does so."""
        with job.script.lock:
            request = job.script.first()
            if request is not None:
                self.pipeline.enter(Work(job, request))
                if request.text_open and job.script.current.closed:
                    self.pipeline.text(job, "", final=True)

    def _append(self, job: Job, text: str, final: bool) -> None:
        script = job.script
        with script.lock:
            new = script.append(text, final)
            if new.text or new.final:
                self.pipeline.text(job, new.text, new.final)
            if new.more and job.life != Life.QUEUED:
                self._begin(job)
                self.pipeline.resume(job)
        if script.is_empty:
            raise InvalidRequest("the text has no words: there is nothing to say.", param="input")

    def _on_over(self, job: Job) -> None:
        """Forgets a job that has ended, for whatever reason. Called once per job, in the thread that ended it."""
        with self._lock:
            self._jobs.pop(job.id, None)
            self._text_chars.pop(job.id, None)
            if job.slot < 0:
                self._queue.remove(job)
            if job.outcome is not None:
                self._admission.learn(job)
                self._report(job.outcome)
        self.pipeline.forget(job)  # also a job that was only queued: stages may hold its appended text

    def _report(self, outcome: Outcome) -> None:
        """Reports an outcome; if the callback fails, for instance on a full disk, the job still ends."""
        try:
            self._on_outcome(outcome)
        except Exception:
            log.exception("an outcome could not be reported")

    def _on_free(self, job: Job) -> None:
        """Gives the slot of a job that no stage holds any more to the next in the queue."""
        with self._lock:
            # It still counts for this client: with few slots, its next request would else go before those of others.
            slots_of = dict(self._admission.slots_of)
            self._free_slots.append(job.slot)
            self._admission.leave(job)
            if self._running:
                self._admit(slots_of)
