"""The process of one model, as it reports to the process of the whole server."""

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from rhapsode.edge.report import ReplicaReport
from rhapsode.pool import child
from rhapsode.pool.child import ModelProcess
from rhapsode.pool.messages import End, Serving
from rhapsode.serve.process.link import Link


class Draining:
    """A server that takes a while to end."""

    url = "http://127.0.0.1:9"

    def __init__(self, takes_s: float) -> None:
        self._takes_s, self._ends_s = takes_s, float("inf")

    def drain(self) -> None:
        self._ends_s = time.monotonic() + self._takes_s

    @property
    def is_running(self) -> bool:
        return time.monotonic() < self._ends_s


def test_a_process_that_drains_is_heard_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    report = ReplicaReport("1", Draining.url, 0, 1, (), takes_voices=False)
    monkeypatch.setattr(child, "reported", lambda *about: report)
    monkeypatch.setattr(child, "REPORT_S", 0.01)
    ours, theirs = socket.socketpair()
    heard: list[Any] = []
    link = Link(ours, heard.extend, lambda: None)
    link.read_in_thread()
    process = ModelProcess(theirs)
    config = SimpleNamespace(engine_silence_s=0.25, drain_timeout_s=5)
    process._service = SimpleNamespace(config=config, host=SimpleNamespace(busy=1, used_s=0.0), sockets=0)
    process._server = process._thread = Draining(0.5)
    process._asked.put(End())
    process._report()
    process._link.close()
    time.sleep(0.05)
    assert sum(isinstance(message, Serving) for message in heard) > 5
    link.close()
