"""One cluster for all tests here: two replicas of the default voice, one dummy, two that clone voices, two whose
pace is known, one that is soon full, one that comes and goes, one that needs another node, and one that cannot be
loaded."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from cluster.local import LocalCluster, local_cluster
from e2e.serve.conftest import ROOM
from e2e.serve.running import Running
from tiny.dummy import write

# A frame takes 10 ms without work for a processor: many replicas fit on two cores.
SLEEPY = {"graphs": False, "options": {"frame_sleep_s": 0.01}}
HASTY = {"window_s": 2, "up_delay_s": 0.5, "down_delay_s": 2, "to_zero_delay_s": 4}

if find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    dummy = {"device": "cpu", "limits": ROOM}
    cloning = {"model": write(folder / "checkpoint"), "device": "cpu", "limits": ROOM}
    small = dummy | {"model": "dummy", "limits": ROOM | {"max_concurrency": 1, "max_queue": 1}, **SLEEPY}
    stretchy = dummy | {"model": "dummy", "limits": ROOM | {"max_concurrency": 2}, **SLEEPY}
    paced = {
        "model": "dummy",
        "limits": ROOM | {"real_time": False},
        "graphs": False,
        "options": {"frame_sleep_s": 0.02},
    }
    voice = {"device": "cpu", "threads": 1, "limits": {"max_concurrency": 4, "max_positions": 1024}}
    models = {
        "dummy": {"deployment": dummy, "cpus": 0.2},
        "cloning": {"deployment": cloning, "replicas": 2, "cpus": 0.2},
        "rhapsode-nano": {"deployment": voice, "replicas": 2, "cpus": 0.2},
        "paced": {"deployment": {"device": "cpu"} | paced, "replicas": 2, "cpus": 0.1},
        "small": {"deployment": small, "cpus": 0.1},
        "stretchy": {"deployment": stretchy, "replicas": {"min": 0, "max": 3}, "cpus": 0.1, "scaling": HASTY},
        "elsewhere": {
            "deployment": dummy | {"model": "dummy", **SLEEPY},
            "replicas": {"min": 0, "max": 1},
            "cpus": 0.1,
            "resources": {"elsewhere": 1},
        },
        "broken": {"deployment": {"model": "qwen3-tts", "device": "cpu"}, "cpus": 0.1},
    }
    server = {"max_body_bytes": 2_000_000, "max_upload_bytes": 1_000_000}
    with local_cluster(folder, models, server=server, cold_start_s=120) as started:
        yield started


@pytest.fixture(scope="session")
def dummy(cluster: LocalCluster) -> Running:
    return cluster


@pytest.fixture(scope="session")
def stormy(cluster: LocalCluster) -> Running:
    return cluster


@pytest.fixture(scope="session")
def cloning_dummy(cluster: LocalCluster) -> Iterator[Running]:
    server = cluster.of("cloning")
    yield server
    server.close()
