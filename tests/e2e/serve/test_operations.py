"""Running it: health, keys, origins, limits, metrics, letting go of the model, and the files that configure it."""

import http.server
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import openai
import pytest

from e2e.serve.running import LETTER_BYTES, LETTER_S, Running, await_health, in_thread, running
from unit.command import environment, rhapsode

SMALL = {"max_concurrency": 2, "max_queue": 1, "max_positions": 1024}
EXAMPLES = Path(__file__).parents[3] / "examples" / "configs"


def test_a_server_that_is_ready_says_so(dummy: Running) -> None:
    for path in ("/health", "/ready"):
        assert dummy.http.get(path).json() == {"status": "ready", "model": "dummy"}


def test_a_server_that_still_loads_is_not_healthy(tmp_path: Path) -> None:
    with running("rhapsode-nano", tmp_path, wait=False, limits=SMALL) as server:  # the dummy would be ready too soon
        first = server.http.get("/health")
        assert (first.status_code, first.json()["status"]) == (503, "loading")
        assert server.http.get("/ready").status_code == 503
        assert server.speak().status_code == 200  # who asks early waits for the model
        await_health(server)


def test_a_model_that_cannot_be_loaded_ends_the_server_with_one_sentence(tmp_path: Path) -> None:
    done = rhapsode("serve", "qwen3-tts", "--port", "0", cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("rhapsode: qwen3-tts needs a checkpoint")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nothing-of-the-kind",), "there is no family"),
        (("--port", "99999"), "65535"),
        (("--config", "missing.yaml"), "cannot read the configuration file"),
        (("--host", "203.0.113.1"), "cannot listen on"),
    ],
)
def test_a_server_that_cannot_start_says_why(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    done = rhapsode("serve", *arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert complaint in done.stderr.decode().splitlines()[-1]
    assert b"Traceback" not in done.stderr


def test_a_port_that_is_taken_is_one_sentence(dummy: Running, tmp_path: Path) -> None:
    done = rhapsode("serve", "dummy", "--port", str(dummy.port), cwd=tmp_path)
    assert done.returncode == 1
    assert "address already in use" in done.stderr.decode().splitlines()[-1]


def test_what_was_resolved_is_printed_and_served(dummy: Running) -> None:
    printed = "".join(dummy.log)
    assert "64 at once, 128 waiting, 5000 characters" in printed
    main, *aliases = dummy.http.get("/v1/models").json()["data"]
    assert main["id"] == "dummy"
    assert main["deployment"]["limits"]["max_concurrency"] == 64
    assert main["options"]["endless"]["description"] == "Never stop: what a runaway looks like."
    assert [model["id"] for model in aliases] == ["tts-1", "tts-1-hd", "gpt-4o-mini-tts"]
    assert next(iter(dummy.openai.models.list())).id == "dummy"
    assert dummy.openai.models.retrieve("tts-1").id == "tts-1"


def test_the_page_and_the_docs_are_there(dummy: Running) -> None:
    assert "<title>Rhapsode</title>" in dummy.http.get("/").text
    answer = dummy.http.head("/")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0
    assert dummy.http.get("/docs").status_code == 200
    schema = dummy.http.get("/openapi.json").json()
    speech = schema["paths"]["/v1/audio/speech"]["post"]
    body = speech["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["endless"]["description"] == "Never stop: what a runaway looks like."
    assert body["additionalProperties"] is False
    assert body["examples"]
    assert {"200", "400", "413", "429", "503"} <= speech["responses"].keys()


# --- keys and origins ---


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    server = {"api_keys": ["sk-one", "sk-two"], "cors_origins": ["https://example.org"], "log_format": "json"}
    with running("dummy", tmp_path_factory.mktemp("guarded"), limits=SMALL, server=server) as started:
        yield started


@pytest.mark.parametrize(
    "given", [{}, {"Authorization": "Bearer sk-on"}, {"Authorization": "sk-one"}, {"X-Api-Key": ""}]
)
def test_without_a_key_nothing_is_spoken(guarded: Running, given: dict[str, str]) -> None:
    for method, path in (("POST", "/v1/audio/speech"), ("GET", "/v1/models"), ("GET", "/v1/audio/voices")):
        answer = guarded.http.request(method, path, headers=given)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        assert answer.headers["x-request-id"]
    assert guarded.http.get("/health").status_code == 200


@pytest.mark.parametrize("key", ["sk-one", "sk-two"])
def test_every_key_opens(guarded: Running, key: str) -> None:
    for headers in ({"Authorization": f"Bearer {key}"}, {"X-Api-Key": key}):
        assert guarded.http.post("/v1/audio/speech", json={"input": "Hi."}, headers=headers).status_code == 200


def test_openai_s_client_brings_its_key(guarded: Running) -> None:
    with pytest.raises(openai.AuthenticationError):
        guarded.openai.models.list()
    with guarded.openai.with_options(api_key="sk-two") as client:
        assert next(iter(client.models.list())).id == "dummy"


def test_keys_are_never_shown(guarded: Running) -> None:
    headers = {"Authorization": "Bearer sk-one", "X-Request-Id": "look-for-me"}
    body = guarded.http.get("/v1/models", headers=headers).text
    time.sleep(0.2)
    log = "".join(guarded.log)
    assert "look-for-me" in log
    for secret in ("sk-one", "sk-two"):
        assert secret not in log + body


def test_log_lines_are_json_with_request_ids(guarded: Running) -> None:
    guarded.http.post(
        "/v1/audio/speech",
        json={"input": "A secret text."},
        headers={"Authorization": "Bearer sk-one", "X-Request-Id": "logged-1"},
    )
    time.sleep(0.2)
    lines = [json.loads(line) for line in guarded.log if line.startswith("{")]
    (mine,) = [line for line in lines if line.get("request_id") == "logged-1"]
    assert (mine["route"], mine["status"], mine["level"]) == ("/v1/audio/speech", 200, "info")
    assert "A secret text" not in "".join(guarded.log)


def test_an_allowed_origin_may_ask_and_others_may_not(guarded: Running) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    good = guarded.http.options("/v1/audio/speech", headers={**asked, "Origin": "https://example.org"})
    assert good.headers["access-control-allow-origin"] == "https://example.org"
    bad = guarded.http.options("/v1/audio/speech", headers={**asked, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in bad.headers


# --- load ---


def test_past_the_queue_the_answer_is_429_with_a_time(guarded: Running) -> None:
    guarded.http.headers["Authorization"] = "Bearer sk-one"
    with httpx2.Client(base_url=guarded.url, headers=guarded.http.headers, trust_env=False) as client:
        long = {"input": "x" * 450, "response_format": "pcm"}
        streams = [client.stream("POST", "/v1/audio/speech", json=long) for _ in range(2)]
        opened = [stream.__enter__() for stream in streams]
        ask = {"url": f"{guarded.url}/v1/audio/speech", "json": long, "headers": dict(guarded.http.headers)}
        waiting = threading.Thread(target=lambda: httpx2.post(**ask, timeout=60, trust_env=False))
        waiting.start()
        deadline_s = time.monotonic() + 20
        while not guarded.metric("rhapsode_queue_depth") and time.monotonic() < deadline_s:
            time.sleep(0.02)
        refused = guarded.speak()
        for stream in streams:
            stream.__exit__(None, None, None)
        waiting.join(30)
    assert [answer.status_code for answer in opened] == [200, 200]
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1
    guarded.settle()
    assert guarded.metric("rhapsode_requests_total", outcome="refused") >= 1


def test_a_request_that_takes_too_long_is_504_and_frees_its_slot(tmp_path: Path) -> None:
    with in_thread("dummy", tmp_path, limits=SMALL, server={"max_request_s": 0.15}) as server:
        answer = server.speak("x" * 450, stream=False)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
        server.settle()
        with server.http.stream(
            "POST", "/v1/audio/speech", json={"input": "x" * 450, "response_format": "pcm"}
        ) as late:
            request_id = late.headers["x-request-id"]
            with pytest.raises(httpx2.RemoteProtocolError):
                late.read()
        assert server.http.get(f"/v1/audio/speech/{request_id}").json()["error"]["code"] == "timeout"
        assert server.metric("rhapsode_requests_total", outcome="timeout") == 2


def test_an_idle_model_is_let_go_of_and_comes_back_for_the_next_request(tmp_path: Path) -> None:
    with in_thread("dummy", tmp_path, limits=SMALL, server={"idle_unload_s": 0.3}) as server:
        before = server.speak(response_format="pcm", seed=1).content
        deadline_s = time.monotonic() + 20
        while server.metric("rhapsode_model_loaded"):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        assert server.http.get("/ready").json()["status"] == "idle"
        frames = server.metric("rhapsode_talker_frames_total")
        assert server.speak(response_format="pcm", seed=1).content == before
        assert server.metric("rhapsode_model_loads_total") == 2
        assert server.metric("rhapsode_talker_frames_total") > frames > 0


def test_metrics_count_what_happened(dummy: Running) -> None:
    names = ("rhapsode_requests_total", "rhapsode_first_audio_seconds_count", "rhapsode_real_time_factor_count")
    before = [dummy.metric(name) for name in names]
    chunks = dummy.metric("rhapsode_chunk_gap_seconds_count")
    frames = dummy.metric("rhapsode_frames_total")
    assert dummy.speak("x" * 100).status_code == 200
    assert [dummy.metric(name) for name in names] == [count + 1 for count in before]
    assert dummy.metric("rhapsode_chunk_gap_seconds_count") > chunks
    assert dummy.metric("rhapsode_frames_total") == frames + 100
    assert dummy.metric("rhapsode_batch_size_mean") > 0.5
    text = dummy.http.get("/metrics").text
    for name in ("slots", "pages", "queue_depth", "underruns_total", "open_websockets", "tasks", "audio_seconds_total"):
        assert re.search(rf"^rhapsode_{name} ", text, re.MULTILINE), name


# --- files, and the command line as a client ---


@pytest.mark.slow
def test_the_example_deployment_of_the_default_voice_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rhapsode", "serve", "--config", str(EXAMPLES / "hibari.yaml"), "--port", "0"]
    env = environment(RHAPSODE_SERVER__VOICES=str(tmp_path))
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE) as process:
        assert process.stderr
        for raw in process.stderr:
            if found := re.search(rb"http://\S+:\d+", raw):
                answer = httpx2.post(
                    f"{found[0].decode()}/v1/audio/speech", json={"input": "Hello."}, timeout=60, trust_env=False
                )
                assert answer.status_code == 200
                process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize("extension", ["wav", "mp3", "opus", "aac", "flac", "pcm", "ulaw"])
def test_say_saves_a_valid_file_from_a_server(dummy: Running, tmp_path: Path, extension: str) -> None:
    from rhapsode.audio.decode import decode

    file = tmp_path / f"said.{extension}"
    done = rhapsode("say", "--server", dummy.url, "x" * 25, "-o", file.name, "--no-play", cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert "2.00 s of speech" in done.stderr.decode()
    data = file.read_bytes()
    if extension == "pcm":
        assert len(data) == 25 * LETTER_BYTES
        return
    if extension == "ulaw":
        assert len(data) == 16_000
        return
    assert -LETTER_S < decode(data).duration_s - 2.0 < 0.13
    if extension == "wav":
        assert int.from_bytes(data[40:44], "little") == len(data) - 44


def test_say_saves_nothing_of_a_stream_that_breaks_off(dummy: Running, tmp_path: Path) -> None:
    done = rhapsode("say", "--server", dummy.url, "x" * 100, "--option", "endless=true", "--no-play", cwd=tmp_path)
    assert done.returncode == 1
    assert "broke off" in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_say_needs_a_server_of_ours(tmp_path: Path) -> None:
    class AnySpeech(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()

    with http.server.HTTPServer(("127.0.0.1", 0), AnySpeech) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        done = rhapsode("say", "--server", f"http://127.0.0.1:{server.server_port}", "Hello.", cwd=tmp_path)
        thread.join()
    assert done.returncode == 1
    assert "is not a Rhapsode server" in done.stderr.decode()


def test_say_tells_what_the_server_says(dummy: Running, tmp_path: Path) -> None:
    done = rhapsode("say", "--server", dummy.url, "Hello.", "--voice", "nobody", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no voice 'nobody'" in done.stderr.decode()
    gone = rhapsode("say", "--server", "http://127.0.0.1:1", "Hello.", cwd=tmp_path)
    assert gone.returncode == 1
    assert "cannot be reached" in gone.stderr.decode()
