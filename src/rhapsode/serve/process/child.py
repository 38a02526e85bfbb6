"""Runs an engine in its own process: `python -m rhapsode.serve.process.child FD`.

A server starts the process. The process exits when the server stops it or is gone.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from math import ceil
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from rhapsode.config import Deployment
from rhapsode.engine import Speech, give_way
from rhapsode.errors import Busy, GenerationFailed, RhapsodeError
from rhapsode.models.placement import describe_places
from rhapsode.models.registry import find
from rhapsode.serve.fair_threads import FairThreads
from rhapsode.serve.garbage import collect_rarely
from rhapsode.serve.load_error import load_error
from rhapsode.serve.local_engine import is_quick, text_threads
from rhapsode.serve.observe.log_lines import configure
from rhapsode.serve.process.hang import HangWatch
from rhapsode.serve.process.heartbeat import beat_s
from rhapsode.serve.process.link import MANY, Link
from rhapsode.serve.process.messages import (
    Abort,
    Accepted,
    Append,
    Embed,
    Embedded,
    EngineReady,
    Failed,
    Hung,
    Loading,
    LoadReport,
    Refused,
    Start,
    Stop,
    Submit,
    Taken,
)
from rhapsode.serve.process.speeches import SentSpeech
from rhapsode.serve.warm_up import load_aligner, open_warm, start_early
from rhapsode.types import Clip, SpeechRequest
from rhapsode.waiting.wake_ups import held

if TYPE_CHECKING:
    from rhapsode.engine import Engine

log = logging.getLogger("rhapsode.serve")

REPORT_S = 0.1
"""How often the engine's load is reported to the server, if it has changed."""
TOGETHER = MANY
"""Messages that are handled together: their requests are tokenised in one call, and reach the talker in one step."""
THREADS = 4
SWITCH_S = 0.0025
"""Python's switch interval: how long a thread may keep the interpreter's lock while others wait for it. With the
default of 5 ms the device loop waits too long; with 1 ms the throughput of all threads together drops."""


class EngineChild:
    """Runs the engine for a server, until the server stops the engine or is gone."""

    def __init__(self, end: socket.socket) -> None:
        self._start: SimpleQueue[Deployment] = SimpleQueue()
        self._engine: Engine
        self._texts: FairThreads
        self._stopping = threading.Event()
        self._slow = ThreadPoolExecutor(THREADS, "rhapsode-slow")
        self._speeches: dict[str, SentSpeech] = {}
        self._reading: dict[str, Future[None]] = {}
        """Requests whose text is to be prepared in a thread; `_aborted` has those that were aborted meanwhile."""
        self._aborted: set[str] = set()
        self._lock = threading.RLock()
        self._link = Link(end, self._received, lambda: os._exit(0))

    def run(self) -> None:
        self._link.read_in_thread()
        deployment = self._start.get()
        configure(deployment.server.log_format)
        try:
            with self._loading(beat_s(deployment.server.engine_silence_s)):
                self._open(deployment)
        except Exception as error:
            self._link.send(Failed(load_error(error)))
        else:
            self._report(deployment)
            self._engine.stop()
        self._link.close()

    def _open(self, deployment: Deployment) -> None:
        model = find(deployment.model)
        compiling = start_early(model, deployment)
        device = describe_places(model.spec, deployment)  # this imports torch
        gc.freeze()  # the collection after loading then skips all imported modules
        self._engine = open_warm(model, deployment, compiling=compiling)
        self._texts = text_threads(self._engine)
        collect_rarely()
        sys.setswitchinterval(SWITCH_S)
        self._link.send(EngineReady(self._engine.info, self._engine.load(), device))
        if deployment.alignment.at_start:
            load_aligner(self._engine)

    @contextmanager
    def _loading(self, every_s: float) -> Iterator[None]:
        """Sends signs of life from a thread, until the block ends."""
        loaded = threading.Event()

        def beat() -> None:
            while not loaded.wait(every_s):
                self._link.send(Loading())

        beating = threading.Thread(target=beat, name="rhapsode-loading", daemon=True)
        beating.start()
        try:
            yield
        finally:
            loaded.set()
            beating.join()

    def _report(self, deployment: Deployment) -> None:
        """Reports the engine's load to the server, until the engine is to be stopped: when it has changed, and at each
        beat. A device loop that has hung is reported, too."""
        server, told, reports = deployment.server, None, 0
        every_s = beat_s(server.engine_silence_s)
        inline_s = max(server.engine_turn_s, server.max_request_s)
        watch = HangWatch(self._engine.unfinished, ceil(server.engine_turn_s / every_s), ceil(inline_s / every_s))
        while not self._stopping.wait(REPORT_S):
            reports += 1
            is_beat = reports % round(every_s / REPORT_S) == 0
            if is_beat and (step := watch.look()) is not None:
                self._link.send(Hung(f"a {step.kind} of stage '{step.stage}' did not end"))
            load = self._engine.load()
            if is_beat or load != told:
                self._link.send(LoadReport(load))
                told = load

    # --- in the link's thread ---

    def _received(self, messages: list[Any]) -> None:
        for start in range(0, len(messages), TOGETHER):
            with held():
                for message in messages[start : start + TOGETHER]:
                    give_way()
                    try:
                        self._take(message)
                    except Exception:
                        log.exception("a message of the server failed")

    def _take(self, message: Any) -> None:
        match message:
            case Submit(request_id, request, client):
                if is_quick(self._engine, request):
                    self._submit(request_id, request, client)
                else:
                    self._read_later(request_id, request, client)
            case Append(request_id, text, final):
                self._append(request_id, text, final)
            case Abort(request_id):
                self._abort(request_id)
            case Taken(request_id, seconds):
                if (speech := self._speeches.get(request_id)) is not None:
                    speech.taken(seconds)
            case Embed(call_id, clip):
                self._slow.submit(self._embed, call_id, clip)
            case Start(deployment):
                self._start.put(deployment)
            case Stop():
                self._stopping.set()

    def _submit(self, request_id: str, request: SpeechRequest, client: str) -> None:
        try:
            self._engine.submit(self._engine.script(request), request_id, self._speech, client)
        except RhapsodeError as error:
            self._refuse(request_id, error)
        except Exception:
            log.exception("a request could not be read")
            self._refuse(request_id, GenerationFailed("something went wrong inside the engine."))
        else:
            self._link.send(Accepted(request_id))

    def _read_later(self, request_id: str, request: SpeechRequest, client: str) -> None:
        """Prepares the text of a request in a thread, and submits the request. It may be aborted meanwhile."""

        def ended(reading: Future[None]) -> None:
            if not reading.cancelled() and isinstance(
                error := reading.exception(), Busy
            ):  # it gave its place to another
                self._not_read(request_id, error)

        with self._lock:
            try:
                reading = self._reading[request_id] = self._texts.submit(
                    client, self._read, request_id, request, client
                )
            except Busy as error:
                self._not_read(request_id, error)
            else:
                reading.add_done_callback(ended)

    def _not_read(self, request_id: str, error: Busy) -> None:
        with self._lock:
            self._reading.pop(request_id, None)
        self._refuse(request_id, error)

    def _read(self, request_id: str, request: SpeechRequest, client: str) -> None:
        self._submit(request_id, request, client)
        with self._lock:
            self._reading.pop(request_id, None)
            is_aborted = request_id in self._aborted
            self._aborted.discard(request_id)
        if is_aborted:
            self._engine.abort(request_id)

    def _speech(self, request_id: str, *about: Any) -> Speech:
        speech = self._speeches[request_id] = SentSpeech(self._link.send, self._over, request_id, *about)
        return speech

    def _over(self, request_id: str) -> None:
        self._speeches.pop(request_id, None)

    def _refuse(self, request_id: str, error: RhapsodeError) -> None:
        self._over(request_id)
        self._link.send(Refused(request_id, error))

    def _append(self, request_id: str, text: str, final: bool) -> None:
        with suppress(RhapsodeError):  # an error ends the speech, which passes it on to the listener
            self._engine.append(request_id, text, final)

    def _abort(self, request_id: str) -> None:
        with self._lock:
            reading = self._reading.get(request_id)
            if reading is not None and reading.cancel():
                del self._reading[request_id]
            elif reading is not None:
                self._aborted.add(request_id)
        self._engine.abort(request_id)

    def _embed(self, call_id: str, clip: Clip) -> None:
        try:
            self._link.send(Embedded(call_id, self._engine.embed(clip)))
        except RhapsodeError as error:
            self._link.send(Embedded(call_id, error))
        except Exception:
            log.exception("a recording could not be embedded")
            self._link.send(Embedded(call_id, GenerationFailed("something went wrong inside the engine.")))


def main() -> None:
    gc.disable()  # collections take a tenth of the import time; they are enabled again once the model is loaded
    for number in (signal.SIGINT, signal.SIGTERM):  # the server handles a signal that all processes of a service get
        signal.signal(number, lambda *_: None)  # not SIG_IGN: processes that compile would inherit it, and never end
    EngineChild(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
