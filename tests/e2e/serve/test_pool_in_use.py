"""Real voices in one server while clients speak with them: one is loaded on demand, one makes room for another, and the
metrics tell what happened."""

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import httpx2
import numpy as np
import pytest
from websockets.sync.client import connect

from e2e.serve.running import Running
from e2e.serve.test_pool import pool, statuses, wait_for
from tiny import kokoro

TEXT = "The ship sailed at noon."
MOST_LOADED, MAX_WAITING, COLD_START_S = 3, 1, 6
CLIENTS = 2
"""Of each model."""
ROUNDING = 3
"""The most that a 16-bit sample may differ: other requests in a batch change the rounding."""

Reading = dict[str, dict[str, float]]


def speak(server: Running, model: str) -> httpx2.Response:
    return server.speak(TEXT, model=model, response_format="pcm", seed=1)


def samples(answer: httpx2.Response) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, "<i2").astype(int)


def load(server: Running, model: str) -> httpx2.Response:
    """Asks for a model until it is there, as a client would. Who waits for too long is told so."""
    while True:
        began_s = time.monotonic()
        answer = speak(server, model)
        if answer.status_code != 503:
            return answer
        assert f"'{model}' was not loaded within {COLD_START_S} s" in answer.json()["error"]["message"]
        assert time.monotonic() - began_s < 2 * COLD_START_S


@contextmanager
def crowd(server: Running, alone: dict[str, np.ndarray], asked: Counter[str]) -> Iterator[None]:
    """Clients who ask each model for the same text again and again, and hear what it says when it is asked `alone`."""
    ended = threading.Event()

    def listen(model: str) -> int:
        heard = 0
        while not (heard and ended.is_set()):
            audio = samples(speak(server, model))
            assert len(audio) == len(alone[model])
            assert abs(audio - alone[model]).max() <= ROUNDING
            heard += 1
        return heard

    with ThreadPoolExecutor(CLIENTS * len(alone)) as threads:
        clients = [(model, threads.submit(listen, model)) for model in alone for _ in range(CLIENTS)]
        try:
            yield
        finally:
            ended.set()
    for model, client in clients:
        asked[model] += client.result()


def reading(server: Running) -> Reading:
    """Returns all metrics of the pool, by name and model; those of unloading by model and reason."""
    found: Reading = {}
    for line in server.http.get("/metrics").text.splitlines():
        series = re.fullmatch(r'rhapsode_(pool_\w+)\{model="(\w+)"(?:,why="(\w+)")?\} (\S+)', line)
        if series and not series[1].endswith("_created"):
            name, model, why, value = series.groups()
            found.setdefault(name.removeprefix("pool_"), {})[f"{model}, {why}" if why else model] = float(value)
    return found


@contextmanager
def watched(server: Running) -> Iterator[list[Reading]]:
    """Reads the metrics of the pool again and again, until the block is left."""
    ended, seen = threading.Event(), [reading(server)]

    def watch() -> None:
        while not ended.wait(0.5):
            seen.append(reading(server))
        seen.append(reading(server))

    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(watch)
        try:
            yield seen
        finally:
            ended.set()
        watching.result()


def check_history(seen: list[Reading]) -> None:
    """At no moment too many models were loaded, or the pinned one was not; counters never decreased."""
    assert len(seen) > 10
    for now in seen:
        assert sum(now["loaded"].values()) <= MOST_LOADED
        assert now["loaded"]["nano"] == 1
        assert {name for name, size in now["memory_bytes"].items() if size} == {
            name for name, is_loaded in now["loaded"].items() if is_loaded
        }
    for name in ("loads_total", "unloads_total"):
        for before, after in pairwise(seen):
            assert all(before[name][series] <= count for series, count in after[name].items())


def third_is_loaded(server: Running) -> np.ndarray:
    """Asks for a third model, and returns what it says. One more request does not wait with it."""
    with ThreadPoolExecutor(1) as thread:
        began_s = time.monotonic()
        waiting = thread.submit(load, server, "kokoro")
        wait_for(lambda: statuses(server)["kokoro"] == "loading")
        assert server.metric("rhapsode_edge_waiting", model="kokoro") == 1
        one_more = speak(server, "kokoro")
        assert (one_more.status_code, one_more.headers["retry-after"]) == (429, "5")
        assert one_more.json()["error"]["message"].endswith("wait until 'kokoro' is loaded, and no more can.")
        assert reading(server)["loaded"] == {"nano": 1, "hibari": 1, "kokoro": 0, "dummy": 0}
        answer = waiting.result()
    assert 0 < float(answer.headers["x-model-wait-s"]) <= COLD_START_S
    now = reading(server)
    assert now["loaded"] == {"nano": 1, "hibari": 1, "kokoro": 1, "dummy": 0}
    assert 0 < now["load_seconds"]["kokoro"] <= time.monotonic() - began_s
    return samples(answer)


def nobody_makes_room(server: Running) -> None:
    """Asks for a fourth model while conversations keep those that could go."""
    places = [f"{server.socket_url}?model={model}" for model in ("hibari", "kokoro")]
    with connect(places[0], proxy=None), connect(places[1], proxy=None):
        wait_for(lambda: server.metric("rhapsode_open_websockets") == 2)
        began_s = time.monotonic()
        refused = speak(server, "dummy")
        assert COLD_START_S <= time.monotonic() - began_s < 2 * COLD_START_S
        assert refused.status_code == 503
        waited = f"'dummy' was not loaded within {COLD_START_S} s: it has been loading for {COLD_START_S} s."
        assert refused.json()["error"]["message"] == waited
        wait_for(lambda: statuses(server)["dummy"] == "unloaded")
        assert reading(server)["loaded"] == {"nano": 1, "hibari": 1, "kokoro": 1, "dummy": 0}


@pytest.mark.slow
def test_real_voices_are_loaded_and_unloaded_while_clients_speak(tmp_path: Path) -> None:
    models = {
        "nano": {"deployment": {"model": "rhapsode-nano"}, "pinned": True},
        "hibari": {"deployment": {"model": "hibari"}, "load": "start"},
        "kokoro": {"deployment": {"model": str(kokoro.write(tmp_path / "checkpoint"))}, "load": "request"},
        "dummy": {"deployment": {"model": "dummy"}, "load": "request"},
    }
    rules = {"most_loaded": MOST_LOADED, "cold_start_s": COLD_START_S, "max_waiting": MAX_WAITING}
    with pool(tmp_path, models, **rules) as server, watched(server) as seen, ThreadPoolExecutor(1) as thread:
        assert statuses(server) == {"nano": "loaded", "hibari": "loaded", "kokoro": "unloaded", "dummy": "unloaded"}
        alone = {model: samples(speak(server, model)) for model in ("nano", "hibari")}
        asked = Counter(alone.keys())
        with crowd(server, alone, asked):
            alone["kokoro"] = third_is_loaded(server)
        with crowd(server, alone, asked):
            nobody_makes_room(server)

        for model in ("kokoro", "hibari"):  # the pinned one has been idle for longest, and hibari was loaded first
            samples(speak(server, model))
            asked[model] += 1
        server.settle()
        time.sleep(0.5)  # until the processes have told that nobody uses them
        fourth = thread.submit(load, server, "dummy")
        wait_for(lambda: statuses(server)["kokoro"] == "unloaded")
        del alone["kokoro"]
        with crowd(server, alone, asked):
            assert len(samples(fourth.result()))
            assert 0 < float(fourth.result().headers["x-model-wait-s"]) <= COLD_START_S

        now = reading(server)
        assert now["loaded"] == {"nano": 1, "hibari": 1, "kokoro": 0, "dummy": 1}
        assert now["loads_total"] == {"nano": 1, "hibari": 1, "kokoro": 1, "dummy": 1}
        assert {series: count for series, count in now["unloads_total"].items() if count} == {"kokoro, room": 1}
        assert now["memory_bytes"]["nano"] > 100 * 2**20
        assert min(now["load_seconds"].values()) > 0
        for model in alone:
            assert server.metric("rhapsode_requests_total", model=model) == asked[model]
            assert server.metric("rhapsode_requests_total", model=model, outcome="stop") == asked[model]
    check_history(seen)
