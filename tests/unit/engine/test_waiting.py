"""The queue among several clients: whoever has least goes first, and nobody takes all places."""

import time
from types import SimpleNamespace

import pytest

from rhapsode.config import resolve
from rhapsode.engine import Engine
from rhapsode.errors import Busy
from rhapsode.types import SpeechRequest
from rhapsode.waiting import line as waiting_line
from rhapsode.waiting.line import WaitingLine
from unit.engine.slow import SLOW, UNTRACED


def line_of(clients):
    """A line of requests, each named by its client and when it came: a0, b1, a2 ..."""
    line = WaitingLine()
    for number, client in enumerate(clients):
        line.add(SimpleNamespace(client=client, name=f"{client}{number}"))
    return line


def admitted(line, **slots):
    """The names of all requests in the order in which they are admitted, if nobody gives a slot back."""
    names = []
    while (job := line.next(slots)) is not None:
        assert line.remove(job)
        slots[job.client] = slots.get(job.client, 0) + 1
        names.append(job.name)
    assert len(line) == 0
    return names


def test_requests_of_one_client_are_admitted_as_they_came():
    assert admitted(line_of("aaaa"), a=7) == ["a0", "a1", "a2", "a3"]


def test_short_speech_goes_ahead_of_long_speech_that_came_a_little_earlier(monkeypatch):
    now_s = 0.0
    monkeypatch.setattr(waiting_line, "clock_s", lambda: now_s)
    line = WaitingLine()
    for now_s, name, expected_s in (  # noqa: B007 - the clock reads it
        (0.0, "book", 130.0),
        (1.0, "page", 8.0),
        (2.0, "word", 0.5),
        (9.0, "later word", 0.5),
        (11.0, "latest word", 0.5),
    ):
        line.add(SimpleNamespace(client="a", name=name), expected_s)
    assert line.displaced_by("b").name == "latest word"
    assert admitted(line) == ["word", "page", "later word", "book", "latest word"]


def test_next_is_the_oldest_request_of_the_client_with_the_fewest_slots():
    assert admitted(line_of("aaabbc")) == ["a0", "b3", "c5", "a1", "b4", "a2"]
    assert admitted(line_of("aaab"), a=32) == ["b3", "a0", "a1", "a2"]
    assert admitted(line_of("aab"), b=1) == ["a0", "a1", "b2"]


def test_in_a_full_line_the_newest_of_the_client_with_the_most_gives_way():
    line = line_of("aabaac")
    assert line.displaced_by("d").name == "a4"
    assert line.displaced_by("c").name == "a4"
    assert line.displaced_by("a") is None  # nobody has more there than itself


def test_clients_with_as_much_as_the_others_displace_nobody():
    assert line_of("abc").displaced_by("c") is None
    assert line_of("").displaced_by("a") is None


def test_a_request_leaves_the_line_once():
    line = line_of("ab")
    job = line.next({})
    assert line.remove(job)
    assert not line.remove(job)
    assert [left.name for left in line] == ["b1"]
    assert len(line) == 1


@pytest.fixture(scope="module")
def engine():
    limits = {"max_concurrency": 1, "max_queue": 3, "max_positions": 1024, "real_time": False}
    with Engine(SLOW, resolve(env={}, flags={**UNTRACED, "limits": limits})) as running:
        yield running


def test_an_engine_shares_its_slot_and_its_queue_among_clients(engine):
    greedy = [engine.submit(SpeechRequest("x" * 6), client="greedy") for _ in range(4)]
    with pytest.raises(Busy):
        engine.submit(SpeechRequest("x"), client="greedy")
    modest = [engine.submit(SpeechRequest("x" * 2), client="modest") for _ in range(2)]
    with pytest.raises(Busy):  # two of its own wait, and one of the other's: there is nothing to share out
        engine.submit(SpeechRequest("x" * 2), client="modest")
    ended = {}
    for name, speech in [("greedy", speech) for speech in greedy] + [("modest", speech) for speech in modest]:
        try:
            list(speech)
            ended.setdefault(name, []).append(speech.outcome.queued_s)
        except Busy as error:
            ended.setdefault("displaced", []).append(error)
    assert [len(ended[name]) for name in ("greedy", "modest", "displaced")] == [2, 2, 2]
    assert all(error.retry_after_s > 0 for error in ended["displaced"])
    assert ended["modest"][0] < ended["greedy"][1]
    deadline_s = time.monotonic() + 10
    while engine.load().slots_in_use or engine.load().queued:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
