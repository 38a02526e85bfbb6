"""Sections do nothing until a recorder is installed, and change nothing once it is."""

import threading

import pytest
import torch

from rhapsode.device import cuda_calls
from rhapsode.device.replay import CudaGraph, Replay
from rhapsode.device.sections import captured, recording, section


class Log:
    """A recorder that writes down what it is told."""

    def __init__(self, events: object = None) -> None:
        self.calls: list[object] = []
        self._events = events

    def begin(self, name: str) -> None:
        self.calls.append(name)

    def end(self) -> None:
        self.calls.append("end")

    def captured(self) -> object:
        return self._events

    def replayed(self, events: object) -> None:
        self.calls.append(events)


@section("sampling")
def draw(x):
    """Adds one."""
    return x + 1


def step(x):
    with section("talker"):
        return draw(x) * 2


def test_without_a_recorder_nothing_changes():
    assert step(1) == 4
    assert captured() is None
    assert draw.__doc__ == "Adds one."
    assert section("talker") is section("talker")  # entering one allocates nothing


def test_a_recorder_is_told_of_nested_sections_and_of_those_that_fail():
    log = Log()
    with recording(log):
        step(1)
        with pytest.raises(ZeroDivisionError), section("codec"):
            1 / 0  # noqa: B018
    step(1)  # the recording is over
    assert log.calls == ["talker", "sampling", "end", "end", "codec", "end"]


def test_a_recorder_is_told_by_every_thread_and_an_inner_recording_replaces_the_outer():
    outer, inner = Log(), Log()
    with recording(outer):
        with recording(inner):
            thread = threading.Thread(target=step, args=(1,))
            thread.start()
            thread.join()
        draw(1)
    assert inner.calls == ["talker", "sampling", "end", "end"]
    assert outer.calls == ["sampling", "end"]


@pytest.mark.parametrize("recorded", [False, True])
def test_a_traced_launch_keeps_no_sections(recorded):
    """A trace that had to ask for a value would warn, and `Replay` would raise."""
    replay = Replay(step)
    log = Log()
    with recording(log):
        if recorded:
            replay.capture(torch.zeros(3))
    if not recorded:
        replay.capture(torch.zeros(3))
    log.calls.clear()
    with recording(log):
        assert replay(torch.ones(3)).tolist() == [4, 4, 4]
    assert log.calls == []


def test_a_graph_tells_of_each_replay_with_the_events_it_was_captured_with(monkeypatch):
    launched: list[int] = []
    monkeypatch.setattr(cuda_calls, "launch", lambda graph, device: launched.append(graph))
    inputs = [torch.zeros(1)]
    with recording(Log(events="events")):
        marked = CudaGraph(None, 1, inputs, None, captured())
    plain, log = CudaGraph(None, 2, inputs, None, captured()), Log()
    marked.replay()
    with recording(log):
        for graph in (marked, plain, marked):
            graph.replay()
    assert log.calls == ["events", "events"]
    assert launched == [1, 1, 2, 1]
