"""Serves one model of several: `python -m rhapsode.pool.child FD`. The process ends with the server that started it."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import signal
import socket
import sys
import time
from queue import SimpleQueue
from typing import Any

from rhapsode.config import Deployment
from rhapsode.edge.report import reported
from rhapsode.edge.server_thread import TICK_S, ServerThread
from rhapsode.errors import Unavailable
from rhapsode.pool.memory import resident_bytes
from rhapsode.pool.messages import CannotLoad, End, Leave, Serve, Serving, Stays
from rhapsode.serve.app import create_app
from rhapsode.serve.load_error import load_error
from rhapsode.serve.memory import use_one_heap
from rhapsode.serve.observe.log_lines import configure
from rhapsode.serve.ports import listen
from rhapsode.serve.process.heartbeat import beat_s
from rhapsode.serve.process.link import Link
from rhapsode.serve.server import LAST_BYTES_S, Server
from rhapsode.serve.service import Service

REPORT_S = 0.1
"""How often the state is reported, if it has changed."""
LOOPBACK = "127.0.0.1"


class ModelProcess:
    """The server of one model, told by the process of the whole server when to end."""

    def __init__(self, end: socket.socket) -> None:
        self._start: SimpleQueue[Deployment] = SimpleQueue()
        self._asked: SimpleQueue[Leave | End] = SimpleQueue()
        self._secret = secrets.token_urlsafe(24)
        self._service: Service
        self._server: Server
        self._thread: ServerThread
        self._link = Link(end, self._received, lambda: os._exit(0))

    def run(self) -> None:
        self._link.read_in_thread()
        deployment = self._start.get()
        configure(deployment.server.log_format)
        try:
            self._load(deployment)
        except Exception as error:
            self._link.send(CannotLoad(load_error(error)))
        else:
            self._report()
        self._link.close()

    def _load(self, deployment: Deployment) -> None:
        app = create_app(deployment, edge_secret=self._secret)
        self._service = app.state.service
        self._server = Server(app)
        self._thread = ServerThread(self._server, listen(LOOPBACK, 0))
        while not self._service.host.warm:
            if not self._thread.is_running:
                raise self._server.failed or Unavailable("the server ended while the model was loaded.")
            time.sleep(TICK_S)

    def _report(self) -> None:
        """Reports the state when it has changed, and at each beat, until the server has ended; also while it drains."""
        config = self._service.config
        told, told_s, beat = None, 0.0, beat_s(config.engine_silence_s)
        ends_by_s: float | None = None
        while self._thread.is_running and (ends_by_s is None or time.monotonic() < ends_by_s):
            state, now_s = self._state(), time.monotonic()
            if state != told or now_s - told_s > beat:
                self._link.send(state)
                told, told_s = state, now_s
            if ends_by_s is None and self._is_to_end():
                self._server.drain()
                ends_by_s = now_s + config.drain_timeout_s + 2 * LAST_BYTES_S
            time.sleep(REPORT_S)

    def _is_to_end(self) -> bool:
        while not self._asked.empty():
            if isinstance(self._asked.get(), End) or not self._in_use:
                return True
            self._link.send(Stays())
        return False

    @property
    def _in_use(self) -> int:
        return self._service.host.busy + self._service.sockets

    def _state(self) -> Serving:
        report = reported(self._service, str(os.getpid()), self._thread.url, self._secret)
        memory_bytes = resident_bytes() // 2**20 * 2**20  # so that not every page is news
        return Serving(report, self._in_use, self._service.host.used_s, memory_bytes)

    def _received(self, messages: list[Any]) -> None:
        for message in messages:
            if isinstance(message, Serve):
                self._start.put(message.deployment)
            else:
                self._asked.put(message)


def main() -> None:
    gc.disable()  # collections take a tenth of the import time; they are enabled again once the model is loaded
    use_one_heap()
    for number in (signal.SIGINT, signal.SIGTERM):  # the server handles a signal that all processes of a service get
        signal.signal(number, lambda *_: None)
    ModelProcess(socket.socket(fileno=int(sys.argv[1]))).run()
    logging.shutdown()
    os._exit(0)  # everything is closed; to take a model and its libraries apart, Python would need seconds


if __name__ == "__main__":
    main()
