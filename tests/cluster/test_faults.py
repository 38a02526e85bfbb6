"""Processes that die, and a full object store: others go on, the dead one's streams end visibly, nothing is lost."""

import asyncio
import os
import signal
import subprocess
import sys

import httpx2
import pytest

from cluster.local import LocalCluster, patient, second_node

STREAMS = 32
LONG = {"input": "x" * 450, "response_format": "pcm", "model": "cloning"}
LONG_BYTES = 450 * 3840
FILL = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
kept = []
try:
    while len(kept) < 100:
        kept.append(ray.put(bytes(10 * 2**20)))
except ray.exceptions.ObjectStoreFullError:
    pass
print("full", len(kept), flush=True)
sys.stdin.readline()
"""


async def listen(client: httpx2.AsyncClient, number: int, heard: asyncio.Barrier) -> int | None:
    """Returns the bytes of a whole stream, or nothing of one that broke."""
    async with client.stream("POST", "/v1/audio/speech", json=LONG, headers={"X-Request-Id": f"kill-{number}"}) as got:
        assert got.status_code == 200
        size = 0
        try:
            async for part in got.aiter_bytes():
                if not size:
                    await heard.wait()
                size += len(part)
        except httpx2.TransportError:
            return None
        return size


async def listen_while(url: str, fault) -> list[int | None]:
    heard = asyncio.Barrier(STREAMS + 1)
    limits = httpx2.Limits(max_connections=STREAMS)
    async with httpx2.AsyncClient(base_url=url, timeout=120, trust_env=False, limits=limits) as client:
        tasks = [asyncio.create_task(listen(client, number, heard)) for number in range(STREAMS)]
        await heard.wait()  # everybody hears something, and nobody reads on before the fault
        fault()
        return await asyncio.gather(*tasks)


def test_a_killed_replica_ends_its_own_streams_only_and_is_replaced(cluster: LocalCluster) -> None:
    cluster.wait_for_replicas("cloning", 2)
    victim = cluster.replica_pids("cloning")[0]
    sizes = asyncio.run(listen_while(cluster.url, lambda: os.kill(victim, signal.SIGKILL)))
    broken = [number for number, size in enumerate(sizes) if size is None]
    assert 0 < len(broken) < STREAMS
    assert {size for size in sizes if size is not None} == {LONG_BYTES}
    assert cluster.speak(model="cloning").status_code == 200  # the other one takes it at once
    lost = cluster.http.get(f"/v1/audio/speech/kill-{broken[0]}").json()
    assert (lost["status"], lost["error"]["code"]) == ("failed", "replica_lost")
    cluster.wait_for_replicas("cloning", 2)
    assert victim not in cluster.replica_pids("cloning")


def test_events_of_a_killed_replica_end_with_an_error(cluster: LocalCluster) -> None:
    cluster.wait_for_replicas("dummy", 1)
    (victim,) = cluster.replica_pids("dummy")
    body = LONG | {"model": "dummy", "stream_format": "sse"}
    text = b""
    with cluster.http.stream("POST", "/v1/audio/speech", json=body) as answer:
        try:
            for part in answer.iter_bytes():
                if not text:
                    os.kill(victim, signal.SIGKILL)
                text += part
        except httpx2.TransportError:
            pass
    assert b"event: error" in text
    assert b"replica_lost" in text
    assert cluster.speak(model="dummy").status_code == 200  # it waits for the new replica


def test_saved_voices_outlive_the_replica_that_saved_them(cluster: LocalCluster) -> None:
    body = {"name": "Kept", "consent": "yes", "speaker_embedding": [0.5] * 64}
    assert cluster.http.post("/v1/audio/voices", json=body).status_code == 201
    cluster.wait_for_replicas("cloning", 2)
    for pid in cluster.replica_pids("cloning"):
        os.kill(pid, signal.SIGKILL)
    spoken = cluster.speak(voice="Kept", model="cloning")
    assert spoken.status_code == 200, spoken.text
    assert cluster.http.delete("/v1/audio/voices/Kept").status_code == 200
    cluster.wait_for_replicas("cloning", 2)


def test_a_killed_node_ends_its_own_streams_and_its_replicas_come_back_with_it(cluster: LocalCluster) -> None:
    body = LONG | {"model": "elsewhere"}
    with second_node(cluster.ray_address) as node, cluster.http.stream("POST", "/v1/audio/speech", json=body) as answer:
        assert answer.status_code == 200
        os.kill(node, signal.SIGKILL)
        with pytest.raises(httpx2.TransportError):
            answer.read()
    assert cluster.speak(model="cloning").status_code == 200
    with second_node(cluster.ray_address):
        assert cluster.speak("xx", model="elsewhere").status_code == 200


def test_a_full_object_store_disturbs_nobody(cluster: LocalCluster) -> None:
    command = [sys.executable, "-c", FILL, cluster.ray_address]
    with subprocess.Popen(command, env=patient(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as filling:
        assert filling.stdin
        assert filling.stdout
        assert any(line.startswith(b"full") for line in filling.stdout)  # Ray may say something before
        assert len(cluster.speak("x" * 450, response_format="pcm", model="cloning").content) == LONG_BYTES
        filling.stdin.close()
