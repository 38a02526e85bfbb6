"""A cluster on this machine, started as a user does it, and ways to look into it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import yaml

from e2e.serve.running import Running
from rhapsode.cluster.ray_environment import NODES_ON_LOOPBACK
from unit.command import environment

START_S = 300
RHAPSODE = (sys.executable, "-m", "rhapsode")
HERE = str(Path(__file__).parents[2]).encode()
# A loaded machine is slow, not dead. No token is written into the home of whoever runs the tests.
PATIENT = {"RAY_agent_register_timeout_ms": "300000", "RAY_USAGE_STATS_ENABLED": "0"}
GIVEN_RAY = os.environ.get("TEST_RAY_ADDRESS")
TOKEN = Path(tempfile.gettempdir(), f"rhapsode-test-{os.getpid()}", "token")
"""Ray's token of the clusters of these tests. `rhapsode cluster serve` writes it."""
AUTHENTICATION = {"RAY_AUTH_MODE": "disabled"} if GIVEN_RAY else {"RAY_AUTH_TOKEN_PATH": str(TOKEN)}
NODE = """
import sys
import time
from ray._private.node import Node
from ray._private.parameter import RayParams
like_ray_start = {"object_store_memory": 100 * 2**20, "include_log_monitor": False}
params = RayParams(
    gcs_address=sys.argv[1], node_ip_address="127.0.0.1", num_cpus=1, resources={"elsewhere": 1}, **like_ray_start
)
node = Node(params, head=False, shutdown_at_exit=True, spawn_reaper=False)
while not node.dead_processes():
    time.sleep(0.2)
node.kill_all_processes(check_alive=False, allow_graceful=False)
"""


class LocalCluster(Running):
    """A started cluster: its address, its file, and the processes of its replicas."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: list[str], file: Path) -> None:
        super().__init__(process, url, log)
        self.http.timeout = httpx2.Timeout(150)  # who waits for a new replica waits for a process to start
        self.file = file

    @property
    def ray_address(self) -> str:
        found = re.search(r"ray cluster at (\S+)", "".join(self.log))
        assert found
        return found[1]

    def replica_pids(self, model: str) -> list[int]:
        """The processes of a model's replicas: Ray names them after their deployment, and starts them in our folder."""
        title = f"ray::ServeReplica:rhapsode:model-{model}".encode()
        found = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
        return [pid for pid in found if read(pid, "cmdline").startswith(title) and HERE in read(pid, "environ")]

    def replicas(self, model: str) -> int:
        return int(self.http.get("/health").json()["models"][model]["replicas"])

    def wait_for_replicas(self, model: str, count: int, timeout_s: float = 120) -> None:
        deadline_s = time.monotonic() + timeout_s
        while (found := self.replicas(model)) != count:
            assert time.monotonic() < deadline_s, f"{found} replicas instead of {count}"
            time.sleep(0.2)

    def of(self, model: str) -> Running:
        """The same cluster, for requests that name no model and should go to this one."""
        other = Running(None, self.url, self.log)
        other.http = httpx2.Client(base_url=self.url, timeout=60, trust_env=False, params={"model": model})
        return other


@contextmanager
def local_cluster(folder: Path, models: dict, **settings) -> Iterator[LocalCluster]:
    """`rhapsode cluster serve FILE`, until the block is left.

    It starts a Ray cluster of its own, or uses the one at TEST_RAY_ADDRESS: to start one takes a while.
    """
    server = {"port": 0, "voices": str(folder / "voices"), "drain_timeout_s": 20, **settings.pop("server", {})}
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump({"models": models, **settings, "server": server}, sort_keys=False))
    address = GIVEN_RAY
    command = [*RHAPSODE, "cluster", "serve", str(file), *(("--address", address) if address else ())]
    with subprocess.Popen(command, cwd=folder, env=patient(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        log: list[str] = []
        started = threading.Event()
        reader = threading.Thread(target=_read, args=(run, log, started), daemon=True)
        reader.start()
        try:
            assert started.wait(START_S), "".join(log)
            found = re.search(r"listening on (http://\S+:\d+)", "".join(log))
            assert found, "".join(log)
            cluster = LocalCluster(run, found[1], log, file)
            try:
                yield cluster
            finally:
                cluster.close()
        finally:
            if address:
                subprocess.run([*RHAPSODE, "cluster", "down", "--address", address], env=patient(), check=False)
            run.send_signal(signal.SIGTERM)
            run.wait(timeout=90)
            reader.join(timeout=10)


@contextmanager
def second_node(ray_address: str) -> Iterator[int]:
    """Another node on this machine, with the resource `elsewhere`; yields the process that is the node.

    `ray start` cannot start one for a cluster that is on loopback alone.
    """
    command = [sys.executable, "-c", NODE, ray_address]
    with subprocess.Popen(command, env=connecting(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as node:
        try:
            deadline_s = time.monotonic() + START_S
            while not (found := [pid for pid in descendants(node.pid) if b"/raylet\0" in read(pid, "cmdline")]):
                assert time.monotonic() < deadline_s
                assert node.poll() is None
                time.sleep(0.2)
            yield found[0]
        finally:
            node.send_signal(signal.SIGTERM)
            node.wait(timeout=60)


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, directly or not."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (stat := read(int(entry.name), "stat")):
            parents[int(entry.name)] = int(stat.rpartition(b")")[2].split()[1])
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def patient() -> dict[str, str]:
    return environment(
        OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(filter(None, sys.path)), **PATIENT, **AUTHENTICATION
    )


def connecting() -> dict[str, str]:
    """The environment of a program that uses Ray itself to connect to the cluster."""
    return patient() if GIVEN_RAY else patient() | {"RAY_AUTH_MODE": "token", NODES_ON_LOOPBACK: "0"}


def read(pid: int, name: str) -> bytes:
    """A file about a process; nothing if it has ended, or belongs to somebody else."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _read(process: subprocess.Popen[bytes], log: list[str], started: threading.Event) -> None:
    assert process.stderr is not None
    for raw in process.stderr:
        line = raw.decode("utf-8", "replace")
        log.append(line)
        if line.startswith("model-"):  # one of the last lines: the state of each model
            started.set()
    started.set()
