"""Processes that die, and a full object store: others go on, the dead one's streams end visibly, nothing is lost."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import httpx2
import pytest

from cluster.local import LocalCluster, connecting, second_node
from e2e.serve.running import LETTER_S
from rhapsode.bench.serve.client import make_session
from rhapsode.bench.serve.playback import Arrival, play

STREAMS = 32
FRAMES, IN_HAND = 200, 50
"""Of a stream, and of what everybody has heard when the replica dies: 4 s, of which 3 s are not played yet."""
PACED = {"input": "x" * FRAMES, "response_format": "pcm", "model": "paced"}
BYTES_PER_S = 48_000
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


@dataclass
class HeardStream:
    """What arrived of one stream, and when."""

    arrivals: list[Arrival] = field(default_factory=list)
    is_broken: bool = False

    @property
    def frames(self) -> int:
        return round(sum(arrival.duration_s for arrival in self.arrivals) / LETTER_S)

    def underruns(self, since_s: float) -> int:
        """As `rhapsode bench serve` counts them, since this moment."""
        earlier = [arrival for arrival in self.arrivals if arrival.at_s <= since_s]
        return play(self.arrivals).underruns - play(earlier).underruns


async def listen_while(url: str, name: str, fault: Callable[[], None]) -> tuple[list[HeardStream], float]:
    """Lets the fault happen once everybody has enough to play for a while; returns all streams and that moment."""
    streams = [HeardStream() for _ in range(STREAMS)]
    in_hand = asyncio.Barrier(STREAMS + 1)

    async def listen(session: aiohttp.ClientSession, number: int, stream: HeardStream) -> None:
        headers = {"X-Request-Id": f"{name}-{number}"}
        reached = None
        async with session.post(f"{url}/v1/audio/speech", json=PACED, headers=headers) as answer:
            assert answer.status == 200
            try:
                async for data in answer.content.iter_any():
                    stream.arrivals.append(Arrival(time.perf_counter(), len(data) / BYTES_PER_S))
                    if reached is None and stream.frames >= IN_HAND:
                        reached = asyncio.create_task(in_hand.wait())
            except aiohttp.ClientPayloadError:
                stream.is_broken = True
        assert reached is not None
        await reached

    async with make_session() as session, asyncio.TaskGroup() as group:
        for number, stream in enumerate(streams):
            group.create_task(listen(session, number, stream))
        await in_hand.wait()
        fault_s = time.perf_counter()
        fault()
    return streams, fault_s


def test_a_killed_replica_ends_its_own_streams_only_and_is_replaced(cluster: LocalCluster) -> None:
    """The model speaks four times as fast as its audio plays, so a busy machine alone causes no underrun."""
    cluster.wait_for_replicas("paced", 2)
    before, calm_s = asyncio.run(listen_while(cluster.url, "calm", lambda: None))
    assert {(stream.frames, stream.is_broken) for stream in before} == {(FRAMES, False)}
    victim = cluster.replica_pids("paced")[0]
    after, killed_s = asyncio.run(listen_while(cluster.url, "kill", lambda: os.kill(victim, signal.SIGKILL)))
    broken = [number for number, stream in enumerate(after) if stream.is_broken]
    others = [number for number, stream in enumerate(after) if not stream.is_broken]
    assert broken
    assert others
    assert {after[number].frames for number in others} == {FRAMES}
    usual = sum(before[number].underruns(calm_s) for number in others)
    assert sum(after[number].underruns(killed_s) for number in others) <= usual
    assert cluster.speak("xx", model="paced").status_code == 200  # the other one takes it at once
    lost = cluster.http.get(f"/v1/audio/speech/kill-{broken[0]}").json()
    assert (lost["status"], lost["error"]["code"]) == ("failed", "replica_lost")
    cluster.wait_for_replicas("paced", 2)
    assert victim not in cluster.replica_pids("paced")


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


def sockets_of(pid: int) -> set[str]:
    """Returns the inodes of the sockets that a process has open."""
    links = (os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir())
    return {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:[")}


def listening_sockets() -> set[str]:
    """Returns the inodes of all sockets that listen."""
    rows = (line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:])
    return {row[9] for row in rows if row[3] == "0A"}


def test_saved_voices_outlive_the_replica_that_saved_them(cluster: LocalCluster) -> None:
    name = f"Kept {secrets.token_hex(4)}"
    body = {"name": name, "consent": "yes", "speaker_embedding": [0.5] * 64}
    assert cluster.http.post("/v1/audio/voices", json=body).status_code == 201
    cluster.wait_for_replicas("cloning", 2)
    killed = cluster.replica_pids("cloning")
    open_sockets = set().union(*map(sockets_of, killed))
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    deadline_s = time.monotonic() + 10
    while open_sockets & listening_sockets() and time.monotonic() < deadline_s:
        time.sleep(0.01)  # a request that two dying replicas have taken is given up
    spoken = cluster.speak(voice=name, model="cloning")
    assert spoken.status_code == 200, spoken.text
    assert cluster.http.delete(f"/v1/audio/voices/{name}").status_code == 200
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
    with subprocess.Popen(command, env=connecting(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as filling:
        assert filling.stdin
        assert filling.stdout
        assert any(line.startswith(b"full") for line in filling.stdout)  # Ray may say something before
        assert len(cluster.speak("x" * 450, response_format="pcm", model="cloning").content) == LONG_BYTES
        filling.stdin.close()
