"""A cluster on this machine: Ray listens on loopback alone, asks for a token, and is told no key of a client."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import grpc
import httpx2
import pytest

from cluster.local import (
    GIVEN_RAY,
    RHAPSODE,
    TOKEN,
    LocalCluster,
    connecting,
    descendants,
    local_cluster,
    patient,
    read,
)
from e2e.serve.conftest import ROOM

pytestmark = pytest.mark.skipif(GIVEN_RAY is not None, reason="is about a cluster that Rhapsode starts")

KEY, OWN_KEY = "sk-of-all-models-1f0c77a9", "sk-of-one-model-5d21be04"
FOLDER = re.compile(r"/[\w/.-]+/session_(?:latest|\d[\w-]+)")
LOOK = """
import json, sys, ray
from ray import serve
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_initialized, _internal_kv_list
ray.init(address=sys.argv[1], log_to_driver=False)
assert _internal_kv_initialized()
found = {}
names = [None, b"serve", b"dashboard", b"session", b"tracing", b"ray_pdb", b"healthcheck", b"job", b"cluster", b"fun"]
for name in names:
    for key in _internal_kv_list(b"", namespace=name):
        found[f"{name} {key}"] = (_internal_kv_get(key, namespace=name) or b"").decode("latin-1")
state = ray._private.state.state
found["actors"], found["nodes"] = repr(state.actor_table(None)), repr(state.node_table())
found["jobs"], found["workers"] = repr(state.job_table()), repr(state.workers())
controller = ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
found["serve"] = repr(ray.get(controller.get_serve_instance_details.remote()))
deployments = ray.get(controller.list_deployments_internal.remote())
found["deployments"] = repr(deployments)
for one, (info, _) in deployments.items():
    config = info.replica_config
    found[f"arguments of {one}"] = repr((config.init_args, config.init_kwargs, config.ray_actor_options))
    found[f"bytes for {one}"] = config.serialized_init_args.decode("latin-1")
report = serve.get_deployment_handle("model-dummy", "rhapsode").report.remote().result(timeout_s=30)
print(json.dumps({"found": found, "secret": report.secret}))
"""
NO_TOKEN = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
print("let in", ray.nodes())
"""
CALLS = [
    "/ray.rpc.InternalKVGcsService/InternalKVGet",
    "/ray.rpc.NodeManagerService/GetNodeStats",
    "/ray.rpc.ObjectManagerService/Pull",
    "/ray.rpc.CoreWorkerService/PushTask",
    "/ray.rpc.ReporterService/GetTraceback",
    "/ray.serve.ASGIService/HandleRequest",
]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("closed")
    dummy = {"device": "cpu", "limits": ROOM}
    models = {
        "dummy": {"deployment": dummy, "cpus": 0.2},
        "guarded": {"deployment": dummy | {"model": "dummy", "server": {"api_keys": [OWN_KEY]}}, "cpus": 0.2},
    }
    with local_cluster(folder, models, server={"api_keys": [KEY, OWN_KEY]}) as started:
        yield started


def processes(cluster: LocalCluster) -> list[int]:
    assert cluster.process is not None
    return [cluster.process.pid, *descendants(cluster.process.pid)]


def ours(cluster: LocalCluster) -> set[int]:
    """The processes that check keys, and the one that was given them."""
    assert cluster.process is not None
    titles = {pid: read(pid, "cmdline") for pid in descendants(cluster.process.pid)}
    return {cluster.process.pid, *(pid for pid, title in titles.items() if title.startswith(b"ray::ServeReplica:"))}


def open_sockets(pids: list[int]) -> Iterator[tuple[str, str, int, int]]:
    """The sockets of these processes that anybody can send to: protocol, address, port, process."""
    owners = {}
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                owners[os.readlink(link).removeprefix("socket:[").removesuffix("]")] = pid
            except OSError:
                continue
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        for row in (line.split() for line in Path(f"/proc/net/{protocol}").read_text().splitlines()[1:]):
            is_open = row[3] == "0A" if protocol.startswith("tcp") else row[2].endswith(":0000")
            if is_open and row[9] in owners:
                host, port = row[1].split(":")
                words = b"".join(bytes.fromhex(host[i : i + 8])[::-1] for i in range(0, len(host), 8))
                family = socket.AF_INET6 if len(words) == 16 else socket.AF_INET
                yield protocol, socket.inet_ntop(family, words), int(port, 16), owners[row[9]]


def is_loopback(address: str) -> bool:
    found = ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def test_nothing_of_the_cluster_listens_on_another_address_than_loopback(closed: LocalCluster) -> None:
    found = list(open_sockets(processes(closed)))
    names = {read(pid, "cmdline").split(b"\0")[0].rpartition(b"/")[2].decode() for *_, pid in found}
    assert {"gcs_server", "raylet", "ray::ServeController", "ray::DashboardAgent"} <= {
        name.split(".")[0] for name in names
    }
    assert len(found) > 10
    assert [one for one in found if not is_loopback(one[1])] == []


def test_the_machine_s_other_address_reaches_no_port_of_the_cluster(closed: LocalCluster) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        try:
            route.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has loopback alone")
        own = route.getsockname()[0]
    for _, _, port, _ in open_sockets(processes(closed)):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((own, port), timeout=2)


def test_a_key_opens_the_models_it_is_for(closed: LocalCluster) -> None:
    def status(key: str, model: str) -> int:
        answer = closed.http.post(
            "/v1/audio/speech", json={"input": "xx", "model": model}, headers={"Authorization": f"Bearer {key}"}
        )
        return answer.status_code

    assert [status(KEY, "dummy"), status(KEY, "guarded"), status(OWN_KEY, "guarded")] == [200, 401, 200]
    assert status("sk-of-nobody", "dummy") == 401


def test_no_key_and_no_secret_is_in_what_ray_keeps_and_shows(closed: LocalCluster) -> None:
    look = [sys.executable, "-c", LOOK, closed.ray_address]
    done = subprocess.run(look, env=connecting(), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout.splitlines()[-1])
    found = said["found"]
    assert "model-dummy" in found["serve"]
    assert any("all" in text and "api_keys_file" in text for name, text in found.items() if name.startswith("bytes"))
    assert len(said["secret"]) > 20
    token = TOKEN.read_text()
    secrets = [KEY, OWN_KEY, said["secret"], token]
    assert [name for name, text in found.items() if any(secret in text for secret in secrets)] == []


def test_no_key_is_in_command_lines_environments_and_files_of_the_session(closed: LocalCluster) -> None:
    pids = processes(closed)
    secrets = [KEY.encode(), OWN_KEY.encode(), TOKEN.read_bytes()]
    shown = {pid: read(pid, "cmdline") + read(pid, "environ") for pid in pids}
    assert all(shown[pid] for pid in pids if Path(f"/proc/{pid}").exists())
    assert [pid for pid, text in shown.items() if any(secret in text for secret in secrets)] == []
    session = next(found[0] for text in shown.values() if (found := FOLDER.search(text.decode("latin-1"))))
    files = [file for file in Path(session).rglob("*") if file.is_file()]
    assert len(files) > 10
    assert [file for file in files if any(secret in file.read_bytes() for secret in secrets)] == []
    assert not any(secret.decode() in "".join(closed.log) for secret in secrets)


def test_ray_s_own_processes_have_no_key_in_memory(closed: LocalCluster) -> None:
    checked = []
    for pid in set(processes(closed)) - ours(closed):
        if (memory := memory_of(pid)) is not None:
            checked.append(pid)
            assert KEY.encode() not in memory, read(pid, "cmdline")
            assert OWN_KEY.encode() not in memory, read(pid, "cmdline")
    if not checked:
        pytest.skip("this user may not read the memory of its processes")


def memory_of(pid: int) -> bytes | None:
    """What a process has written to its memory; None if the system does not let us read it."""
    parts = []
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                span, mode, *_ = line.split(maxsplit=5)
                start, end = (int(part, 16) for part in span.split("-"))
                if mode.startswith("rw") and mode[3] == "p" and end - start < 2**28:
                    try:
                        memory.seek(start)
                        parts.append(memory.read(end - start))
                    except (OSError, ValueError, OverflowError):
                        continue
    except OSError:
        return None
    return b"".join(parts)


def test_files_of_keys_and_the_token_are_for_this_user_alone(closed: LocalCluster) -> None:
    assert stat.S_IMODE(TOKEN.stat().st_mode) == 0o600
    look = [sys.executable, "-c", LOOK, closed.ray_address]
    found = json.loads(subprocess.check_output(look, env=connecting(), timeout=120).splitlines()[-1])["found"]
    files = {
        Path(path) for text in found.values() for path in re.findall(r"/[\w/.-]+/rhapsode-\w+/(?:all|model-\d)", text)
    }
    assert {file.name for file in files} == {"all", "model-1"}
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 2
    assert {stat.S_IMODE(file.parent.stat().st_mode) for file in files} == {0o700}


def test_without_the_token_nobody_gets_into_ray(closed: LocalCluster) -> None:
    env = connecting() | {"RAY_AUTH_MODE": "disabled", "RAY_gcs_server_request_timeout_seconds": "5"}
    command = [sys.executable, "-c", NO_TOKEN, closed.ray_address]
    try:
        done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
        output = done.stdout + done.stderr
        assert done.returncode != 0
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"") + (error.stderr or b"")
    assert b"let in" not in output
    assert b"InvalidAuthToken" in output


def test_without_the_token_no_port_takes_a_call(closed: LocalCluster) -> None:
    refused = set()
    for _, _, port, pid in open_sockets(processes(closed)):
        answers = {call: answer_to(call, port) for call in CALLS}
        refused |= {call for call, answer in answers.items() if answer is grpc.StatusCode.UNAUTHENTICATED}
        is_http = set(answers.values()) == {grpc.StatusCode.UNAVAILABLE}
        if not is_http:
            others = set(answers.values()) - {grpc.StatusCode.UNAUTHENTICATED}
            assert others == {grpc.StatusCode.UNIMPLEMENTED}, answers
        elif pid not in ours(closed):
            page = httpx2.get(f"http://127.0.0.1:{port}/api/job_agent/jobs/", timeout=5, trust_env=False)
            assert page.status_code == 401 or page.text.startswith("# HELP"), page.text[:100]  # figures need no token
    assert refused == set(CALLS)


def answer_to(call: str, port: int) -> grpc.StatusCode:
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(call)(b"", timeout=10)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("how", ["address", "auto"])
def test_ray_is_found_from_this_machine(closed: LocalCluster, how: str) -> None:
    env = patient()
    env.pop("RAY_ADDRESS", None)
    command = [*RHAPSODE, "cluster", "status", "--address", closed.ray_address if how == "address" else "auto"]
    if how == "auto":
        env["RAY_ADDRESS"] = closed.ray_address  # other clusters may be running here
    lines = subprocess.run(command, env=env, capture_output=True, check=True, timeout=120).stdout.decode()
    assert "model-dummy: healthy" in lines
