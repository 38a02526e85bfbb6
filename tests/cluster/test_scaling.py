"""Replicas come with load and go without it, and are replaced when their deployment changes.

The stretchy model has none at first, and at most three.
"""

import asyncio
import json
import subprocess
import time

import httpx2
import yaml
from websockets.sync.client import connect

from cluster.local import RHAPSODE, LocalCluster, patient

BODY = {"input": "x" * 40, "model": "stretchy", "response_format": "pcm"}
BYTES = 40 * 3840


async def speak(client: httpx2.AsyncClient) -> int:
    answer = await client.post("/v1/audio/speech", json=BODY)
    return len(answer.content) if answer.status_code == 200 else -answer.status_code


async def ramp(url: str, listeners: list[int]) -> list[int]:
    """Speaks with so many listeners at once, one number after the other."""
    async with httpx2.AsyncClient(base_url=url, timeout=180, trust_env=False) as client:
        heard = []
        for count in listeners:
            heard += await asyncio.gather(*(speak(client) for _ in range(count)))
        return heard


def test_replicas_follow_the_load_without_a_failed_request(cluster: LocalCluster) -> None:
    assert cluster.replicas("stretchy") == 0
    assert asyncio.run(ramp(cluster.url, [1])) == [BYTES]  # the first one waits for a replica
    most = 0
    for _ in range(20):
        assert set(asyncio.run(ramp(cluster.url, [8, 8]))) == {BYTES}
        most = max(most, cluster.replicas("stretchy"))
        if most == 3:
            break
    assert most == 3
    deadline_s = time.monotonic() + 120
    while cluster.replicas("stretchy") > 1:  # a little load goes on while replicas end: none of it may fail
        assert asyncio.run(ramp(cluster.url, [1])) == [BYTES]
        assert time.monotonic() < deadline_s


def test_an_idle_socket_does_not_hold_a_replica(cluster: LocalCluster) -> None:
    with connect(cluster.socket_url, proxy=None) as socket:
        socket.send(json.dumps({"type": "session.config", "model": "stretchy", "response_format": "pcm"}))
        socket.send(json.dumps({"type": "input.text", "text": "xx"}))
        socket.send(json.dumps({"type": "input.done"}))
        while not isinstance(socket.recv(timeout=120), bytes):
            pass
        cluster.wait_for_replicas("stretchy", 0)
    assert asyncio.run(ramp(cluster.url, [1])) == [BYTES]


def test_a_stream_is_spoken_to_its_end_while_its_replica_is_replaced(cluster: LocalCluster) -> None:
    before = cluster.replica_pids("small")
    content = yaml.safe_load(cluster.file.read_text())
    content["models"]["small"]["deployment"]["limits"]["max_queue"] = 2
    cluster.file.write_text(yaml.safe_dump(content, sort_keys=False))
    others = cluster.replica_pids("cloning")
    body = {"input": "x" * 450, "model": "small", "response_format": "pcm"}
    with cluster.http.stream("POST", "/v1/audio/speech", json=body) as answer:
        command = [*RHAPSODE, "cluster", "serve", str(cluster.file), "--address", cluster.ray_address]
        with subprocess.Popen(command, env=patient(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as update:
            while cluster.replicas("small"):  # until the edge sends no more to the replica, which ends with this stream
                time.sleep(0.1)
            assert len(answer.read()) == 450 * 3840
            assert update.wait(120) is not None
    deadline_s = time.monotonic() + 120
    while set(cluster.replica_pids("small")) & set(before):
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    assert cluster.speak("xx", model="small").status_code == 200
    described = cluster.http.get("/v1/models/small").json()
    assert described["deployment"]["limits"]["max_queue"] == 2
    assert cluster.replica_pids("cloning") == others  # what has not changed goes on
