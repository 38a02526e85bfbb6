"""A replica whose engine is gone for good is replaced."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.local import LocalCluster, descendants, local_cluster, read
from tiny.dummy import write


def wait_for(done: Callable[[], object], trouble: str, timeout_s: float = 120) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline_s, trouble
        time.sleep(0.2)


def engine_of(replica: int) -> int:
    """The engine's process is the only child of a replica that has loaded the model."""
    found = [pid for pid in descendants(replica) if b"rhapsode" in read(pid, "cmdline")]
    assert len(found) == 1, [read(pid, "cmdline") for pid in descendants(replica)]
    return found[0]


@pytest.mark.slow
def test_a_replica_whose_engine_cannot_be_started_again_is_replaced(tmp_path: Path) -> None:
    checkpoint = Path(write(tmp_path / "checkpoint"))
    hidden = checkpoint.with_name("hidden")
    model = {
        "model": str(checkpoint),
        "device": "cpu",
        "limits": {"max_concurrency": 1},
        "server": {"engine_process": True},
    }
    with local_cluster(tmp_path, {"one": {"deployment": model, "cpus": 0.2}}) as cluster:
        assert cluster.speak("xx").status_code == 200
        (first,) = cluster.replica_pids("one")
        os.kill(engine_of(first), signal.SIGKILL)  # one that ends is started again by its server
        wait_for(lambda: cluster.speak("xx").status_code == 200, "the engine does not come back")
        assert cluster.replica_pids("one") == [first]
        engine = engine_of(first)
        checkpoint.rename(hidden)
        os.kill(engine, signal.SIGKILL)
        wait_for(lambda: first not in cluster.replica_pids("one"), "Ray keeps the replica")
        hidden.rename(checkpoint)
        wait_for(lambda: speaks(cluster), "no other replica takes its place")


def speaks(cluster: LocalCluster) -> bool:
    return cluster.replica_pids("one") != [] and cluster.speak("xx").status_code == 200
