"""The server's side of an engine that runs in a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import logging
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from rhapsode.checking.request import check_length, checked
from rhapsode.config import Deployment
from rhapsode.device.early_start import has_gpu
from rhapsode.engine import Load, Speech
from rhapsode.errors import Aborted, InvalidRequest, RhapsodeError, Unavailable
from rhapsode.models.base import ModelSpec
from rhapsode.serve.process.heartbeat import Heartbeat
from rhapsode.serve.process.link import Link
from rhapsode.serve.process.messages import (
    Abort,
    Accepted,
    Append,
    Embed,
    Embedded,
    Ended,
    EngineReady,
    Failed,
    Hung,
    LoadReport,
    Refused,
    SpokenChunk,
    Start,
    Stop,
    Submit,
    Taken,
)
from rhapsode.serve.process.question import Question
from rhapsode.serve.process.spawn import SpawnedProcess, spawn
from rhapsode.serve.process.speeches import ReceivedSpeech
from rhapsode.types import Clip, FinishReason, ModelInfo, Outcome, SpeechRequest
from rhapsode.waiting.wake_ups import held

log = logging.getLogger("rhapsode.serve")

STOP_S = 20.0
"""How long the process may take to end by itself before it is killed."""


def is_apart(deployment: Deployment) -> bool:
    """Returns whether the engine of a server runs in a process of its own."""
    wanted = deployment.server.engine_process
    return deployment.device != "cpu" and has_gpu() if wanted is None else wanted


def begin(deployment: Deployment, early: SpawnedProcess | None = None) -> EngineProcess | None:
    """Starts to load the model in the engine's own process, if the deployment wants one; otherwise returns None.

    `early` is a process that has already been started. It is ended if it is not needed.
    """
    if is_apart(deployment):
        return EngineProcess(deployment, early)
    if early is not None:
        early.kill()
    return None


class EngineProcess:
    """Starts the engine's process, exchanges messages with it, and ends it.

    If the process dies, all running requests fail, and `is_lost` is true. A process that has hung is killed.
    """

    def __init__(self, deployment: Deployment, spawned: SpawnedProcess | None = None) -> None:
        self.on_outcome: Callable[[Outcome], None] = lambda outcome: None
        self.info: ModelInfo
        """Set once the model is loaded, as is `device`."""
        self.device = ""
        self._spec: ModelSpec
        self.is_lost = False
        self._limits = deployment.limits
        self._load = Load(slots=0)
        self._lock = threading.Lock()
        self._calls: dict[str, Question] = {}
        self._speeches: dict[str, ReceivedSpeech] = {}
        self._text_chars: dict[str, int] = {}
        self._serial = itertools.count()
        self._ready: Future[None] = Future()
        self._gone: Future[None] = Future()
        self._why_lost = ""
        self._heartbeat = Heartbeat(deployment.server.engine_silence_s, self._silent)
        spawned = spawned or spawn()
        self._process = spawned.process
        self._link = Link(spawned.end, self._received, self._closed)
        self._link.send(Start(deployment))

    async def ready(self, spec: ModelSpec) -> None:
        """Waits until the model is loaded and warm; raises the error if loading fails. `spec` is that of the model."""
        self._spec = spec
        self._link.read_in_loop()
        self._heartbeat.start()
        await asyncio.shield(asyncio.wrap_future(self._ready))

    async def gone(self) -> None:
        """Waits until the process has ended."""
        await asyncio.shield(asyncio.wrap_future(self._gone))

    # --- the interface of `ServedEngine`, and the controls of its speeches ---

    async def submit(self, request: SpeechRequest, request_id: str, client: str = "") -> Speech:
        request = checked(request, self._spec, self.info, self._limits)  # here, since the engine's process is busier
        speech, call = ReceivedSpeech(request_id, self.info, self, self._limits.max_unread_s, self._taken), Question()
        with self._lock:
            self._check_is_there()
            if request_id in self._speeches:
                raise InvalidRequest(f"a request with the id '{request_id}' is still running.")
            self._speeches[request_id], self._calls[request_id] = speech, call
            if request.text_open:
                self._text_chars[request_id] = len(request.text)
        self._link.send(Submit(request_id, request, client))
        try:
            await call.get()
        except asyncio.CancelledError:
            self.abort(request_id)
            raise
        return speech

    def append(self, request_id: str, text: str, final: bool = False) -> None:
        with self._lock:
            if request_id not in self._speeches:
                return  # it ended while the text was on its way
            if request_id not in self._text_chars:
                raise InvalidRequest("the text of this request is closed.", param="input")
            chars = self._text_chars[request_id] + len(text)
            check_length(chars, self._limits)
            if final:
                del self._text_chars[request_id]
            else:
                self._text_chars[request_id] = chars
        self._link.send(Append(request_id, text, final))

    def abort(self, request_id: str) -> None:
        """Ends a request at once and tells the engine to stop speaking it. Does nothing if the request has ended."""
        if request_id in self._speeches:
            self._link.send(Abort(request_id))
        self._break_off(request_id, FinishReason.ABORTED, Aborted("the request was aborted."))

    async def embed(self, clip: Clip) -> tuple[float, ...]:
        call, call_id = Question(), f"embed {next(self._serial)}"
        with self._lock:
            self._check_is_there()
            self._calls[call_id] = call
        self._link.send(Embed(call_id, clip))
        embedding: tuple[float, ...] = await call.get()
        return embedding

    def load(self) -> Load:
        """Returns the engine's load by its last report. While the load changes, there are ten reports a second."""
        return self._load

    async def stop(self) -> None:
        self._heartbeat.stop()
        await asyncio.to_thread(self.end)

    def end(self) -> None:
        """Stops the engine's process, and blocks until it has ended."""
        if not self._ready.done():
            self._process.kill()  # loading cannot be interrupted
        self._link.send(Stop())
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            log.warning("the engine's process did not end in %.0f s, and is killed", STOP_S)
            self._kill()
        self._link.close()

    def _kill(self) -> None:
        """Kills the process, and ends the connection even if the process does not end: a driver may keep it."""
        self._process.kill()
        self._link.cut()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            log.error("the engine's process %d was killed, and has not ended", self._process.pid)

    # --- messages from the process, handled in the event loop ---

    def _received(self, messages: list[Any]) -> None:
        self._heartbeat.heard()
        with held():
            for message in messages:
                self._take(message)

    def _take(self, message: Any) -> None:
        match message:
            case SpokenChunk(request_id):
                if (speech := self._speeches.get(request_id)) is not None:
                    speech.push(message.chunk())
            case Accepted(request_id):
                self._answer(request_id, None)
            case Refused(request_id, error):
                self._forget(request_id)
                self._answer(request_id, error)
            case Ended(outcome, error):
                self._end(outcome, error)
            case LoadReport(load):
                self._load = load
            case Embedded(call_id, embedding):
                self._answer(call_id, embedding)
            case EngineReady(info, load, device):
                self.info, self._load, self.device = info, load, device
                self._heartbeat.loaded()
                self._ready.set_result(None)
            case Failed(error):
                self._ready.set_exception(error)
            case Hung(what):
                self._give_up(what)

    def _silent(self, seconds: float) -> None:
        self._give_up(f"it did not answer for {seconds:g} s")

    def _give_up(self, why: str) -> None:
        """Kills a process that has hung, and ends all of its requests as if it had died by itself."""
        log.error("the engine's process has hung, and is killed: %s", why)
        self._why_lost = f": {why}"
        self._process.kill()  # it also ends a stopped process
        self._link.cut()

    def _lost(self) -> Unavailable:
        return Unavailable(f"the engine's process has ended{self._why_lost}.")

    def _closed(self) -> None:
        self._heartbeat.stop()
        lost = self._lost()
        with self._lock:
            self.is_lost = True
            calls, running = [*self._calls], [*self._speeches]
        if not self._ready.done():
            self._ready.set_exception(lost)
        with held():
            for request_id in running:
                self._break_off(request_id, FinishReason.FAILED, lost)
            for call_id in calls:
                self._answer(call_id, lost)
        self._gone.set_result(None)

    def _end(self, outcome: Outcome, error: RhapsodeError | None) -> None:
        speech = self._forget(outcome.request_id)
        if speech is not None:
            self._report(outcome)  # first, so that a listener who has heard the end finds the outcome recorded
            speech.end(outcome, error)

    def _break_off(self, request_id: str, reason: FinishReason, error: RhapsodeError) -> None:
        speech = self._forget(request_id)
        if speech is not None:
            outcome = speech.broken_off(reason, error)
            self._report(outcome)
            speech.end(outcome, error)

    def _report(self, outcome: Outcome) -> None:
        try:
            self.on_outcome(outcome)
        except Exception:
            log.exception("an outcome could not be reported")

    def _taken(self, request_id: str, seconds: float) -> None:
        self._link.send(Taken(request_id, seconds))

    def _forget(self, request_id: str) -> ReceivedSpeech | None:
        with self._lock:
            self._text_chars.pop(request_id, None)
            return self._speeches.pop(request_id, None)

    def _answer(self, call_id: str, answer: Any) -> None:
        with self._lock:
            call = self._calls.pop(call_id, None)
        if call is not None:
            call.answer(answer)

    def _check_is_there(self) -> None:
        if self.is_lost:
            raise self._lost()
