"""Several models in one server, each in a process of its own: what is loaded when, and who waits for what."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import connect

from e2e.serve.conftest import ROOM
from e2e.serve.running import LETTER_BYTES, Running, running

DUMMY = {"model": "dummy", "limits": ROOM | {"real_time": False}}
# A frame takes 20 ms without work for a processor.
SLOW = {**DUMMY, "graphs": False, "options": {"frame_sleep_s": 0.02}}
BROKEN = {"model": "qwen3-tts"}  # no checkpoint
KEY = {"Authorization": "Bearer secret"}


@contextmanager
def pool(folder: Path, models: dict, **settings) -> Iterator[Running]:
    with running(None, folder, models=models, **settings) as server:
        yield server


def statuses(server: Running) -> dict[str, str]:
    found = server.http.get("/v1/models").json()["data"]
    return {model["id"]: model["status"] for model in found if "status" in model}


def wait_for(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def children(server: Running) -> list[int]:
    """The processes of the models: those that the server's process has started."""
    assert server.process is not None
    tasks = Path(f"/proc/{server.process.pid}/task")
    found = [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
    return [pid for pid in found if b"rhapsode.pool.child" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def process_of(server: Running, model: str) -> int:
    found = re.search(rf'model="{model}",replica="(\d+)"', server.http.get("/metrics").text)
    assert found
    return int(found[1])


def speak(server: Running, model: str, text: str = "Hello.", **fields) -> httpx2.Response:
    return server.speak(text, model=model, response_format="pcm", sample_rate=16_000, **fields)


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> Iterator[Running]:
    """Room for two of three models, of which one is pinned."""
    models = {
        "first": {"deployment": SLOW, "pinned": True},
        "second": {"deployment": SLOW},
        "third": {"deployment": DUMMY},
    }
    keys = {"api_keys": ["secret"]}
    with pool(tmp_path_factory.mktemp("three"), models, most_loaded=2, cold_start_s=60, server=keys) as server:
        server.http.headers.update(KEY)
        yield server


def test_the_oldest_that_nobody_uses_makes_room_and_a_pinned_one_stays(three: Running) -> None:
    assert statuses(three) == {"first": "loaded", "second": "unloaded", "third": "unloaded"}
    alone = speak(three, "first", "abcdefgh", seed=1).content

    for name, other in (("second", "third"), ("third", "second")):
        waited = speak(three, name)
        assert waited.status_code == 200
        assert float(waited.headers["x-model-wait-s"]) > 0
        assert statuses(three) == {"first": "loaded", name: "loaded", other: "unloaded"}
        assert "x-model-wait-s" not in speak(three, name).headers
        assert len(children(three)) == 2

    assert three.metric("rhapsode_pool_unloads_total", model="second", why="room") == 1
    assert three.metric("rhapsode_pool_loaded", model="third") == 1
    assert three.metric("rhapsode_pool_memory_bytes", model="third") > 50 * 2**20
    assert three.metric("rhapsode_pool_memory_bytes", model="second") == 0
    assert speak(three, "first", "abcdefgh", seed=1).content == alone


def test_two_models_speak_beside_each_other_while_a_third_waits_until_one_is_free(three: Running) -> None:
    text = "abcdefghij" * 10  # 100 frames: 2 s
    with ThreadPoolExecutor(8) as threads:
        speak(three, "second")
        streams = [threads.submit(speak, three, name, text) for name in ("first", "second") * 3]
        wait_for(lambda: three.metric("rhapsode_slots_in_use") >= 6)
        loads = three.metric("rhapsode_pool_loads_total", model="third")
        unloads = three.metric("rhapsode_pool_unloads_total", model="second", why="room")
        began_s = time.monotonic()
        third = threads.submit(speak, three, "third")
        wait_for(lambda: statuses(three)["third"] == "loading")
        listed = next(one for one in three.http.get("/v1/models").json()["data"] if one["id"] == "third")
        assert 0 <= listed["loading_s"] < 60
        assert three.metric("rhapsode_edge_waiting", model="third") == 1
        assert three.metric("rhapsode_pool_loaded", model="third") == 0
        assert three.metric("rhapsode_pool_unloads_total", model="second", why="room") == unloads
        assert third.result().status_code == 200
        assert third.result().headers["x-model-wait-s"]
        assert time.monotonic() - began_s > 0.5, "a model in use was unloaded"
        assert [len(stream.result().content) for stream in streams] == [len(text) * LETTER_BYTES] * 6
    assert statuses(three) == {"first": "loaded", "second": "unloaded", "third": "loaded"}
    assert three.metric("rhapsode_pool_loads_total", model="third") == loads + 1
    assert three.metric("rhapsode_pool_unloads_total", model="second", why="room") == unloads + 1
    assert three.metric("rhapsode_pool_unloads_total", model="first") == 0
    loaded = [three.metric("rhapsode_pool_loaded", model=name) for name in ("first", "second", "third")]
    assert loaded == [1, 0, 1]


@pytest.mark.slow
def test_a_conversation_that_says_nothing_keeps_its_model(three: Running) -> None:
    speak(three, "second")
    with connect(f"{three.socket_url}?model=second", proxy=None, additional_headers=KEY) as socket:
        socket.send(json.dumps({"type": "session.config", "response_format": "pcm"}))
        wait_for(lambda: three.metric("rhapsode_open_websockets") == 1)
        time.sleep(0.3)  # until the process has told that it is in use
        with ThreadPoolExecutor(1) as threads:
            third = threads.submit(speak, three, "third")
            time.sleep(0.5)
            assert statuses(three)["second"] == "loaded"
            socket.send(json.dumps({"type": "input.text", "text": "Still here."}))
            socket.send(json.dumps({"type": "input.done"}))
            while isinstance(message := socket.recv(timeout=10), bytes) or "session.done" not in message:
                pass
            socket.close()
            assert third.result().status_code == 200


def test_a_pinned_model_whose_process_ends_comes_back(three: Running) -> None:
    speak(three, "third")
    asked = {"input": "abcdefghij" * 20, "model": "first"}
    with three.http.stream("POST", "/v1/audio/speech", json=asked) as answer:
        pieces = answer.iter_raw()
        assert next(pieces)
        os.kill(process_of(three, "first"), signal.SIGKILL)
        with pytest.raises(httpx2.TransportError):
            list(pieces)
    wait_for(lambda: statuses(three)["first"] == "loaded", 60)
    assert speak(three, "first").status_code == 200
    assert speak(three, "third").status_code == 200


@pytest.mark.slow
def test_who_asks_for_a_model_without_room_waits_for_a_bounded_time(tmp_path: Path) -> None:
    models = {"busy": {"deployment": SLOW}, "other": {"deployment": DUMMY}}
    with (
        pool(tmp_path, models, most_loaded=1, cold_start_s=1, max_waiting=2) as server,
        ThreadPoolExecutor(8) as threads,
    ):
        long = threads.submit(speak, server, "busy", "abcdefghij" * 20)
        wait_for(lambda: server.metric("rhapsode_slots_in_use", model="busy") == 1)
        answers = [one.result() for one in [threads.submit(speak, server, "other") for _ in range(4)]]
        assert sorted(answer.status_code for answer in answers) == [429, 429, 503, 503]
        for answer in answers:
            assert "'other'" in answer.json()["error"]["message"]
        assert [answer.headers["retry-after"] for answer in answers if answer.status_code == 429] == ["5", "5"]
        assert len(long.result().content) == 200 * LETTER_BYTES
        assert speak(server, "busy").status_code == 200


def test_an_idle_model_is_unloaded_and_one_that_cannot_be_loaded_harms_nobody(tmp_path: Path) -> None:
    models = {
        "kept": {"deployment": DUMMY, "pinned": True},
        "brief": {"deployment": DUMMY},
        "broken": {"deployment": {**DUMMY, "device": "cuda:7"}},
    }
    with pool(tmp_path, models, server={"idle_unload_s": 1}) as server:
        assert speak(server, "brief").status_code == 200
        wait_for(lambda: statuses(server)["brief"] == "unloaded")
        wait_for(lambda: len(children(server)) == 1)
        wait_for(lambda: server.metric("rhapsode_pool_unloads_total", model="brief", why="idle") >= 1)

        refused = speak(server, "broken")
        assert refused.status_code >= 400
        assert "cuda" in refused.json()["error"]["message"]
        assert statuses(server)["kept"] == "loaded"
        assert speak(server, "kept").status_code == 200
        assert server.process is not None
        pids = children(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    said = "".join(server.log)
    assert said.count("rhapsode: stopping.") == 1, "a process that is unloaded says nothing, and the server does"
    assert "model=brief step=talk" in said


@pytest.mark.slow
def test_memory_decides_how_many_are_loaded(tmp_path: Path) -> None:
    models = {name: {"deployment": DUMMY} for name in ("one", "two", "three")}
    with pool(tmp_path, models, memory_bytes=900 * 2**20) as server:
        for name in models:
            assert speak(server, name).status_code == 200
        found = statuses(server)
        assert found["three"] == "loaded"
        assert "unloaded" in found.values()
        taken = server.metric("rhapsode_pool_memory_bytes")
        assert taken < 900 * 2**20


def test_keys_are_checked_by_the_process_of_a_model_too(three: Running) -> None:
    body = {"input": "Hi.", "model": "first"}
    assert httpx2.post(f"{three.url}/v1/audio/speech", json=body, trust_env=False).status_code == 401
    ports = {port for pid in children(three) for port in listening_ports(pid)}
    assert len(ports) == 2
    for port in ports:
        url = f"http://127.0.0.1:{port}/v1/audio/speech"
        assert httpx2.post(url, json=body, trust_env=False).status_code == 401


def listening_ports(pid: int) -> set[int]:
    """The TCP ports that a process listens on."""
    sockets = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *rest = line.split()
        if state == "0A" and f"socket:[{rest[5]}]" in sockets:
            found.add(int(local.rpartition(":")[2], 16))
    return found
