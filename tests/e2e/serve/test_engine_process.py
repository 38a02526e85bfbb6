"""The engine in a process of its own: listeners hear the same, and either process may end at any moment."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
import yaml

from e2e.serve.running import LETTER_BYTES, Running, running
from e2e.serve.test_stalled import ask
from packaged import FOLDER
from unit.command import rhapsode
from unit.plugin import add_plugin

ROOM = {"max_concurrency": 4, "max_queue": 2, "max_text_chars": 5000, "max_positions": 1024, "max_unread_s": 1.0}
LONG = {"input": "x" * 450, "response_format": "pcm", "sample_rate": 16_000}
APART = {"engine_process": True}
WATCHED = {**APART, "engine_silence_s": 2}
HANGING = """
import time
from dataclasses import replace
from rhapsode.models.base import Layout
from rhapsode.models.dummy.codec import DummyCodec
from rhapsode.models.dummy.prompt import DummyPrepare
from rhapsode.models.dummy.spec import SPEC as DUMMY

asked = []

class Prepare(DummyPrepare):
    def __call__(self, request):
        asked.append(request.text)
        return super().__call__(request)

class Codec(DummyCodec):
    def decode(self, window, rows, state):
        while "hang" in asked:
            time.sleep(0.1)
        return super().decode(window, rows, state)

MADE = {"prepare": f"{__name__}:Prepare", "vocode": f"{__name__}:Codec"}
STAGES = tuple(replace(stage, factory=MADE.get(stage.name, stage.factory)) for stage in DUMMY.pipeline)
LAYOUT = Layout(where={"architectures": ("{name}-net",)})
SPEC = replace(DUMMY, name="{name}", pipeline=STAGES, layouts=(LAYOUT,))
"""


@pytest.fixture(scope="module")
def apart(tmp_path_factory) -> Iterator[Running]:
    with running("dummy", tmp_path_factory.mktemp("apart"), limits=ROOM, server=APART) as server:
        yield server


def engine_pids(server: Running) -> list[int]:
    """The processes that a server has started for its engine."""
    assert server.process
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, command in commands.items() if b"rhapsode.serve.process.child" in command]


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 90) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


@pytest.mark.parametrize("fields", [{}, {"response_format": "wav"}, {"speed": 1.5}, {"response_format": "flac"}])
def test_a_seed_speaks_the_same_bytes_in_either_process(apart: Running, dummy: Running, fields: dict) -> None:
    wish = {"response_format": "pcm", "seed": 3, **fields}
    here, there = (server.speak("The same words.", **wish) for server in (dummy, apart))
    assert (here.status_code, there.status_code) == (200, 200)
    assert here.content == there.content
    assert here.headers["content-type"] == there.headers["content-type"]


def test_text_is_appended_across_the_processes(apart: Running, dummy: Running) -> None:
    text = "A text that arrives while it is spoken, in many pieces."
    assert apart.converse(text, 3, seed=3) == dummy.converse(text, 3, seed=3)


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"voice": "nobody"}, 400, "unknown_voice"),
        ({"input": "x" * 5001}, 413, "text_too_long"),
        ({"input_type": "ssml", "input": "<speak>unclosed"}, 400, "invalid_value"),
        ({"input_type": "ssml", "input": f"<speak>{'x ' * 400}<break></speak>"}, 400, "invalid_value"),
    ],
)
def test_what_the_engine_refuses_is_the_client_s_error(apart: Running, fields: dict, status: int, code: str) -> None:
    refused = apart.speak(**{"text": "Hello.", **{("text" if k == "input" else k): v for k, v in fields.items()}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)


def test_a_full_queue_says_when_to_come_back(apart: Running) -> None:
    waiting = [ask(apart.port, input="x" * 450) for _ in range(6)]  # they do not read
    wait_for(lambda: apart.metric("rhapsode_queue_depth") == 2, "the queue is not full")
    refused = apart.speak()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1
    for raw in waiting:
        raw.close()
    apart.settle()


def test_clients_that_leave_at_any_moment_leave_nothing_behind(apart: Running) -> None:
    chance = random.Random(7)
    for _ in range(60):
        with apart.http.stream("POST", "/v1/audio/speech", json=LONG) as answer:
            if chance.random() < 0.7:
                next(answer.iter_bytes())
    apart.settle()
    assert len(apart.speak("xx", response_format="pcm", sample_rate=16_000).content) == 2 * LETTER_BYTES


def test_a_client_that_reads_slowly_pauses_its_own_speech(apart: Running) -> None:
    """More audio than may wait: the engine goes on only as it learns what was taken."""
    with apart.http.stream("POST", "/v1/audio/speech", json=LONG) as answer:
        heard = 0
        for part in answer.iter_bytes():
            heard += len(part)
            time.sleep(0.005)
    assert heard == 450 * LETTER_BYTES


def test_a_dead_engine_breaks_its_streams_and_is_started_again(apart: Running) -> None:
    (engine,) = engine_pids(apart)
    apart.speak("xx")
    wait_for(lambda: apart.metric("rhapsode_talker_frames_total") >= 2, "the engine's report")
    before = apart.metric("rhapsode_talker_frames_total")
    with apart.http.stream("POST", "/v1/audio/speech", json=LONG, headers={"x-request-id": "lost"}) as answer:
        stream = answer.iter_bytes()
        next(stream)
        os.kill(engine, signal.SIGKILL)
        with pytest.raises(httpx2.TransportError):
            list(stream)
    lost = apart.http.get("/v1/audio/speech/lost").json()
    assert (lost["status"], lost["error"]["code"]) == ("failed", "unavailable")
    again = apart.speak("xx", response_format="pcm", sample_rate=16_000)  # it waits for the new one
    assert (again.status_code, len(again.content)) == (200, 2 * LETTER_BYTES)
    assert engine_pids(apart) != [engine]
    assert apart.metric("rhapsode_talker_frames_total") > before
    assert any("it is started again" in line for line in apart.log)


def test_a_pause_of_the_engine_loses_nothing(apart: Running) -> None:
    (engine,) = engine_pids(apart)
    with apart.http.stream("POST", "/v1/audio/speech", json=LONG) as answer:
        stream = answer.iter_bytes()
        heard = len(next(stream))
        os.kill(engine, signal.SIGSTOP)
        time.sleep(2)
        os.kill(engine, signal.SIGCONT)
        heard += sum(map(len, stream))
    assert heard == 450 * LETTER_BYTES
    assert engine_pids(apart) == [engine]


def health(server: Running) -> tuple[int, str, int]:
    alive = server.http.get("/health")
    return alive.status_code, alive.json()["status"], server.http.get("/ready").status_code


def held_by(server: Running) -> tuple[int, int, float]:
    """The descriptors, child processes and asyncio tasks of a server. Its threads are those of a pool that grows."""
    assert server.process
    folder = Path(f"/proc/{server.process.pid}")
    children = (folder / "task" / folder.name / "children").read_text().split()
    return len([*(folder / "fd").iterdir()]), len(children), server.metric("rhapsode_tasks")


def replaced(server: Running, engine: int) -> int:
    """The engine's new process, once it is ready; meanwhile the server is alive, and not ready."""
    wait_for(lambda: health(server) != (200, "ready", 200), "nobody notices")
    assert health(server) == (200, "restarting", 503)
    wait_for(lambda: health(server) == (200, "ready", 200), "it is not started again")
    (new,) = engine_pids(server)
    assert new != engine
    return new


def test_a_stopped_engine_is_noticed_and_replaced_and_leaves_nothing(tmp_path: Path) -> None:
    with running("dummy", tmp_path, limits=ROOM, server=WATCHED) as server:
        (engine,) = engine_pids(server)
        server.speak("xx")
        server.settle()
        before = held_by(server)
        with server.http.stream("POST", "/v1/audio/speech", json=LONG, headers={"x-request-id": "lost"}) as answer:
            stream = answer.iter_bytes()
            next(stream)
            os.kill(engine, signal.SIGSTOP)
            with pytest.raises(httpx2.TransportError):
                list(stream)
        replaced(server, engine)
        lost = server.http.get("/v1/audio/speech/lost").json()
        assert "it did not answer for 2 s" in lost["error"]["message"]
        assert len(server.speak("xx", response_format="pcm", sample_rate=16_000).content) == 2 * LETTER_BYTES
        server.settle()
        assert held_by(server) == before


@pytest.mark.slow
def test_an_engine_may_sleep_with_its_server_or_while_it_loads_but_not_alone(tmp_path: Path) -> None:
    with running("dummy", tmp_path, limits=ROOM, server=WATCHED) as server:
        (engine,) = engine_pids(server)
        os.kill(engine, signal.SIGSTOP)  # nobody asks for anything
        engine = replaced(server, engine)

        assert server.process
        both = server.process.pid, engine
        for number in (signal.SIGSTOP, signal.SIGCONT):  # as on a machine that sleeps
            for pid in both:
                os.kill(pid, number)
            time.sleep(3 if number == signal.SIGSTOP else 0)
        assert len(server.speak("x" * 20, response_format="pcm", sample_rate=16_000).content) == 20 * LETTER_BYTES
        assert engine_pids(server) == [engine]

        os.kill(engine, signal.SIGKILL)
        wait_for(lambda: health(server)[1] == "restarting" and engine_pids(server) not in ([], [engine]), "no other")
        (engine,) = engine_pids(server)
        os.kill(engine, signal.SIGSTOP)  # while it loads it may be silent for much longer
        time.sleep(3)
        assert health(server) == (200, "restarting", 503)
        os.kill(engine, signal.SIGCONT)
        wait_for(lambda: health(server) == (200, "ready", 200), "it is not started again")
        assert engine_pids(server) == [engine]


def test_an_engine_whose_device_loop_hangs_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(add_plugin(tmp_path, "hanging", HANGING))
    limits = {**WATCHED, "engine_turn_s": 1, "max_request_s": 2}
    with running("hanging", tmp_path, limits=ROOM, server=limits) as server:
        (engine,) = engine_pids(server)
        assert server.speak("hang").status_code in (503, 504)
        replaced(server, engine)
        assert server.speak("Hello.").status_code == 200
        assert any("a turn of stage 'vocode' did not end" in line for line in server.log)


def test_a_signal_to_all_processes_lets_running_speech_end(apart: Running) -> None:
    """As `docker stop`, systemd or Ctrl-C send it. Nothing is left of the server: it is the last test that uses it."""
    with apart.http.stream("POST", "/v1/audio/speech", json=LONG) as answer:
        stream = answer.iter_bytes()
        heard = len(next(stream))
        assert apart.process
        for pid in (*engine_pids(apart), apart.process.pid):
            os.kill(pid, signal.SIGTERM)
        heard += sum(map(len, stream))
    assert heard == 450 * LETTER_BYTES
    assert apart.process.wait(20) == 0
    assert "Traceback" not in "".join(apart.log)


@pytest.mark.slow
def test_an_idle_engine_goes_with_its_process_and_no_engine_outlives_its_server(tmp_path: Path) -> None:
    with running("dummy", tmp_path, limits=ROOM, server={**APART, "idle_unload_s": 0.2}) as server:
        spoken = server.metric("rhapsode_talker_frames_total")
        wait_for(lambda: not engine_pids(server), "the process is still there")
        assert server.http.get("/health").json()["status"] == "idle"
        with server.http.stream("POST", "/v1/audio/speech", json=LONG) as answer:  # it is loaded again
            assert answer.status_code == 200
            assert server.metric("rhapsode_talker_frames_total") > spoken
            (engine,) = engine_pids(server)
            assert server.process
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(20)
        wait_for(lambda: not Path(f"/proc/{engine}").exists(), "the engine is still there")


def test_a_model_that_cannot_be_loaded_ends_the_server_with_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(FOLDER, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    settings = {"model": str(folder), "device": "cpu", "server": {"port": 0, **APART}}
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(settings))
    done = rhapsode("serve", "--config", "one.yaml", cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("rhapsode: ")
    assert "model.safetensors" in last
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_an_engine_that_cannot_be_started_again_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(FOLDER, folder)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    with running(str(folder), tmp_path, server=APART, limits={"max_concurrency": 1}) as server:
        weights.write_bytes(whole[:-100])
        os.kill(engine_pids(server)[0], signal.SIGKILL)
        wait_for(lambda: health(server) == (503, "failed", 503), "it does not say that it failed")
        assert "model.safetensors" in server.http.get("/health").json()["error"]
        assert engine_pids(server) == []
        weights.write_bytes(whole)
        wait_for(lambda: health(server) == (200, "ready", 200), "it is not tried again")
        assert server.speak("Hello.").status_code == 200


@pytest.mark.slow
def test_words_and_embeddings_come_from_the_other_process(tmp_path: Path) -> None:
    with running("rhapsode-nano", tmp_path, server=APART, limits={"max_concurrency": 2}) as server:
        wish = {"word_timestamps": True, "stream": False, "response_format": "pcm"}
        words = server.speak("Hello there.", **wish).json()["words"]
        assert [word["word"] for word in words] == ["Hello", "there"]
        spoken = server.speak("This is a recording of somebody who speaks for a while.", response_format="wav").content
        about = {"name": "Mine", "consent": "yes"}
        made = server.http.post("/v1/audio/voices", data=about, files={"audio_sample": ("a.wav", spoken, "audio/wav")})
        assert made.status_code == 201, made.text
        embedding = server.http.get("/v1/audio/voices/Mine/embedding").json()["embedding"]
        assert len(embedding) > 32
        assert len(set(embedding)) > 32
        assert server.speak("Hello.", voice="Mine").status_code == 200
