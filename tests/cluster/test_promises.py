"""What holds for one process holds for the cluster: models, ids, outcomes, voices, metrics, limits, disconnects."""

import asyncio
import io
import json
import random
import re
import subprocess
import time
import wave
from contextlib import suppress

import httpx2
import numpy as np
import openai
import pytest
from websockets.sync.client import connect

from cluster.local import RHAPSODE, LocalCluster, patient
from e2e.serve.running import LETTER_BYTES, heard

DISCONNECTS = 1000


def sample() -> bytes:
    with io.BytesIO() as file, wave.open(file, "wb") as wav:
        wav.setparams((1, 2, 16_000, 0, "NONE", ""))
        wav.writeframes((np.sin(np.arange(16_000) / 20) * 8000).astype("<i2").tobytes())
        wav.close()
        return file.getvalue()


def speaking_replicas(cluster: LocalCluster, model: str) -> dict[str, float]:
    """How many requests each replica of a model has finished."""
    text = cluster.http.get("/metrics").text
    found = re.findall(rf'rhapsode_requests_total{{model="{model}",replica="(\w+)",outcome="stop"}} (\S+)', text)
    return {replica: float(count) for replica, count in found}


def test_a_request_s_model_chooses_among_the_models(cluster: LocalCluster) -> None:
    tones = cluster.speak("xxxx", model="dummy", response_format="pcm")
    words = cluster.openai.audio.speech.create(model="rhapsode-nano", voice="alloy", input="Hello there.")
    assert len(tones.content) == 4 * LETTER_BYTES * 3 // 2
    assert heard(words.read(), "mp3").duration_s > 0.5
    unknown = cluster.speak(model="nobody")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    with pytest.raises(openai.NotFoundError):
        cluster.openai.models.retrieve("nobody")


def test_a_socket_s_first_message_chooses_its_model(cluster: LocalCluster) -> None:
    assert len(cluster.converse("xxxx", 2, model="dummy")) == 4 * LETTER_BYTES * 3 // 2
    assert len(cluster.converse("Hello there.", 4, model="rhapsode-nano")) > 20_000
    with connect(cluster.socket_url, proxy=None) as socket:
        socket.send(json.dumps({"type": "session.config", "model": "nobody"}))
        assert json.loads(socket.recv(timeout=20))["error"]["code"] == "model_not_found"


def test_all_models_and_voices_are_listed(cluster: LocalCluster) -> None:
    models = [model.id for model in cluster.openai.models.list()]
    assert {"dummy", "cloning", "rhapsode-nano", "stretchy", "tts-1"} <= set(models)
    voices = {voice["id"] for voice in cluster.http.get("/v1/audio/voices").json()["data"]}
    assert {"low", "high", "alloy"} <= voices
    only = cluster.http.get("/v1/audio/voices", params={"model": "rhapsode-nano"}).json()["data"]
    assert "low" not in {voice["id"] for voice in only}


def test_the_page_and_the_docs_are_there(cluster: LocalCluster) -> None:
    assert "<title>Rhapsode</title>" in cluster.http.get("/").text
    assert "/v1/audio/speech" in cluster.http.get("/openapi.json").json()["paths"]


def test_both_replicas_speak_and_a_request_s_outcome_is_found_wherever_it_was_spoken(cluster: LocalCluster) -> None:
    before = speaking_replicas(cluster, "cloning")
    assert len(before) == 2
    for number in range(8):
        headers = {"X-Request-Id": f"outcome-{number}", "X-Session-Id": f"s{number}"}
        body = {"input": "xx", "model": "cloning"}
        answer = cluster.http.post("/v1/audio/speech", json=body, headers=headers)
        assert answer.headers.get_list("x-request-id") == [f"outcome-{number}"]
        found = cluster.http.get(f"/v1/audio/speech/outcome-{number}").json()
        assert (found["id"], found["status"], found["delivered"]) == (f"outcome-{number}", "finished", True)
    after = speaking_replicas(cluster, "cloning")
    assert all(after[replica] > before[replica] for replica in before)
    assert cluster.http.get("/v1/audio/speech/never-heard-of").status_code == 404


def test_a_session_stays_with_its_replica(cluster: LocalCluster) -> None:
    before = speaking_replicas(cluster, "cloning")
    for _ in range(6):
        headers = {"X-Session-Id": "always-me"}
        cluster.http.post("/v1/audio/speech", json={"input": "xx", "model": "cloning"}, headers=headers)
        cluster.settle()
    after = speaking_replicas(cluster, "cloning")
    assert sorted(after[replica] - before[replica] for replica in before) == [0, 6]


def test_a_voice_uploaded_through_one_replica_speaks_on_the_other(cluster: LocalCluster) -> None:
    form = {"name": "Ada", "consent": "she agreed", "text": "What is said."}
    stored = cluster.http.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", sample())})
    assert stored.status_code == 201, stored.text
    try:
        before = speaking_replicas(cluster, "cloning")
        for number in range(8):  # the session decides here which replica speaks
            body = {"input": "xx", "voice": "Ada", "model": "cloning"}
            spoken = cluster.http.post("/v1/audio/speech", json=body, headers={"X-Session-Id": f"s{number}"})
            assert spoken.status_code == 200, spoken.text
        after = speaking_replicas(cluster, "cloning")
        assert all(after[replica] > before[replica] for replica in before)
        assert "Ada" in {voice["name"] for voice in cluster.http.get("/v1/audio/voices").json()["data"]}
    finally:
        assert cluster.http.delete("/v1/audio/voices/Ada").status_code == 200
    gone = cluster.speak(voice="Ada", model="cloning")
    assert (gone.status_code, gone.json()["error"]["code"]) == (400, "unknown_voice")


def test_an_id_in_use_is_refused_by_the_edge(cluster: LocalCluster) -> None:
    body = {"input": "x" * 450, "response_format": "pcm", "model": "cloning"}
    headers = {"X-Request-Id": "twice"}
    with cluster.http.stream("POST", "/v1/audio/speech", json=body, headers=headers) as running:
        assert running.status_code == 200
        second = cluster.http.post("/v1/audio/speech", json=body, headers=headers)
        assert (second.status_code, "still running" in second.text) == (400, True)
    cluster.settle()


def test_past_the_queues_of_all_replicas_the_answer_is_429_with_a_time(cluster: LocalCluster) -> None:
    """The small model speaks one request at a time and lets one wait."""
    body = {"input": "x" * 60, "model": "small", "response_format": "pcm"}

    async def crowd() -> list[httpx2.Response]:
        async with httpx2.AsyncClient(base_url=cluster.url, timeout=120, trust_env=False) as client:
            return await asyncio.gather(*(client.post("/v1/audio/speech", json=body) for _ in range(6)))

    answers = asyncio.run(crowd())
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [200] * 2 + [429] * 4
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["error"]["code"] == "queue_full"
    assert int(refused.headers["retry-after"]) >= 1


def test_a_thousand_clients_that_leave_at_any_moment_leave_nothing_behind(cluster: LocalCluster) -> None:
    chance = random.Random(7)
    cluster.settle()
    tasks = cluster.metric("rhapsode_tasks")
    aborted = cluster.metric("rhapsode_requests_total", outcome="aborted")
    failures = cluster.metric("rhapsode_edge_responses_total", status="500")  # of tests that want one: a runaway

    async def leave_early(room: asyncio.Semaphore) -> None:
        wish = {
            "model": "cloning",
            "input": "x" * chance.randint(1, 200),
            "response_format": chance.choice(["flac", "wav", "pcm"]),
            **chance.choice([{}, {"stream": False}, {"stream_format": "sse"}]),
        }
        body = json.dumps(wish).encode()
        async with room:
            reader, writer = await asyncio.open_connection("127.0.0.1", cluster.port)
            head = "POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            cut = chance.choice([len(body)] * 9 + [len(body) // 2])
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:cut])
            with suppress(TimeoutError, OSError):
                await asyncio.wait_for(reader.read(chance.choice([1, 100, 5000])), chance.uniform(0, 0.3))
            if chance.random() < 0.5:
                writer.transport.abort()
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    async def storm() -> None:
        room = asyncio.Semaphore(24)
        await asyncio.gather(*(leave_early(room) for _ in range(DISCONNECTS)))

    asyncio.run(storm())
    cluster.settle(tasks=tasks, timeout_s=60)
    deadline_s = time.monotonic() + 20
    while cluster.metric("rhapsode_edge_in_flight"):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    assert cluster.metric("rhapsode_requests_total", outcome="aborted") > aborted
    assert cluster.metric("rhapsode_edge_responses_total", status="500") == failures
    assert cluster.speak("Still here.", model="cloning").status_code == 200


def test_a_model_that_cannot_be_loaded_is_told_and_the_others_speak(cluster: LocalCluster) -> None:
    health, ready = cluster.http.get("/health"), cluster.http.get("/ready")
    assert (health.status_code, health.json()["models"]["broken"]["replicas"]) == (503, 0)
    assert ready.status_code == 200
    answer = cluster.speak(model="broken")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert "retry-after" in answer.headers
    assert cluster.speak(model="dummy").status_code == 200


def test_the_status_names_models_and_replicas(cluster: LocalCluster) -> None:
    command = [*RHAPSODE, "cluster", "status", "--address", cluster.ray_address]
    lines = subprocess.run(command, env=patient(), capture_output=True, check=True, timeout=120).stdout.decode()
    assert re.search(r"^model-cloning: healthy, replicas: 2 running", lines, re.MULTILINE)
    assert re.search(r"^model-broken: .*qwen3-tts needs a checkpoint", lines, re.MULTILINE), lines
