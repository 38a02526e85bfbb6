"""Over HTTP: listeners wait until they can be served faster than real time; who has no playback clock does not."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from e2e.serve.running import Running, in_thread
from rhapsode.models.registry import Model
from unit.engine.slow import SLOW, UNTRACED

ASKERS = 16
LIMITS = {"max_concurrency": 32, "max_queue": 12, "max_positions": 1024}
TEXT = "x" * 8

pytestmark = pytest.mark.slow  # it measures time


@pytest.fixture(scope="module")
def slow(tmp_path_factory) -> Iterator[Running]:
    with in_thread(Model(SLOW, None, {}), tmp_path_factory.mktemp("slow"), limits=LIMITS, **UNTRACED) as server:
        yield server


def ask(server: Running, count: int, **fields) -> list[httpx2.Response]:
    body = {"input": TEXT, "response_format": "pcm", **fields}
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: server.http.post("/v1/audio/speech", json=body), range(count)))


def busiest(server: Running, done: threading.Event) -> float:
    """The most slots that were in use at once."""
    most = 0.0
    while not done.wait(0.05):
        most = max(most, server.metric("rhapsode_slots_in_use"))
    return most


def test_the_pace_is_known_when_the_server_is_ready(slow: Running) -> None:
    assert 2 <= slow.metric("rhapsode_real_time_listeners") <= 5


def test_of_many_askers_as_many_are_served_as_can_be_without_a_gap(slow: Running) -> None:
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        most = pool.submit(busiest, slow, done)
        answers = ask(slow, ASKERS)
        done.set()
    assert [answer.status_code for answer in answers] == [200] * ASKERS
    assert 2 <= most.result() <= 6
    assert slow.metric("rhapsode_underruns_total") <= ASKERS / 8  # none, on a machine that does nothing else


def test_whole_files_and_batches_use_every_slot(slow: Running) -> None:
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        most = pool.submit(busiest, slow, done)
        slow.http.post("/v1/audio/speech/batch", json={"items": [{"input": TEXT}] * 12, "response_format": "wav"})
        ask(slow, 4, stream=False)
        done.set()
    assert most.result() == 12


def test_past_the_queue_the_time_to_retry_is_when_it_would_have_been_served(slow: Running) -> None:
    slow.settle()
    started_s = time.monotonic()
    answers = ask(slow, 20)
    took_s = time.monotonic() - started_s
    refused = [answer for answer in answers if answer.status_code == 429]
    assert 1 <= len(refused) <= 20 - 12
    for answer in refused:
        assert 1 <= int(answer.headers["retry-after"]) <= took_s + 2
