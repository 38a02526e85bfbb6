"""Starts, shows and stops the application on a Ray cluster: one on this machine, or a running one."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import ray
import ray.util
from ray import serve
from ray.serve.exceptions import RayServeException
from ray.serve.schema import ApplicationStatus, ApplicationStatusOverview, LoggingConfig

from rhapsode.cluster.application import APPLICATION, EDGE, build_application
from rhapsode.config.cluster import ClusterConfig
from rhapsode.errors import Unavailable

LOOPBACK = "127.0.0.1"
LOCAL_STORE_BYTES = 100 * 2**20
"""Audio does not pass through the object store, so a small one is enough."""


def connect(address: str | None) -> None:
    """Connects to a running cluster, by default the one on this machine."""
    try:
        ray.init(address=address or "auto", log_to_driver=False, logging_level="warning")
    except ConnectionError as error:
        where = f"at {address}" if address else "on this machine"
        raise Unavailable(f"there is no Ray cluster {where}.") from error


def serve_cluster(config: ClusterConfig, address: str | None) -> str:
    """Deploys the cluster and returns its address; without an address of a cluster one is started on this machine."""
    if address:
        connect(address)
    else:
        ray.init(
            address="local",  # never connects to a cluster that already runs on this machine
            include_dashboard=False,
            object_store_memory=LOCAL_STORE_BYTES,
            logging_level="warning",
            _node_ip_address=LOOPBACK,
        )
        _check_loopback()
    serve.start(proxy_location="Disabled", logging_config=LoggingConfig(log_level="WARNING"))
    logging.getLogger("ray.serve").addFilter(_without_address)
    try:
        serve.run(build_application(config), name=APPLICATION, route_prefix="/")
    except RuntimeError as error:
        if not _serves(EDGE):
            raise Unavailable(f"the cluster cannot be deployed: {_problems()}") from error
    handle = serve.get_deployment_handle(EDGE, APPLICATION)
    return str(handle.address.remote().result(timeout_s=60))


def _without_address(record: logging.LogRecord) -> bool:
    """Leaves out Ray's line about its own proxy, which is not started: nothing listens at the address it names."""
    return " is ready" not in record.getMessage()


def _check_loopback() -> None:
    """Ends Ray if it has not taken the address that it was told: its ports would be open to the network."""
    if (found := ray.util.get_node_ip_address()) != LOOPBACK:
        ray.shutdown()
        raise Unavailable(f"Ray listens on {found} instead of {LOOPBACK}: this version of Ray is not known here.")


def ray_address() -> str:
    """Returns the address of the Ray cluster, for `status` and `down`."""
    return str(ray.get_runtime_context().gcs_address)


def wait_for_signal() -> None:
    """Returns on SIGINT or SIGTERM."""
    stopped = threading.Event()

    def stop(sig: int, frame: FrameType | None) -> None:
        stopped.set()

    before = {sig: signal.signal(sig, stop) for sig in (signal.SIGINT, signal.SIGTERM)}
    try:
        stopped.wait()
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)


def stop_serving() -> bool:
    """Drains and removes the application; returns whether there was one."""
    if overview() is None:
        return False
    serve.delete(APPLICATION)
    return True


def status_lines() -> Iterator[str]:
    """Yields a line for the application and one for each deployment."""
    found = overview()
    if found is None:
        yield "not deployed"
        return
    yield f"{APPLICATION}: {found.status.value.lower()}"
    for name, deployment in sorted(found.deployments.items()):
        states = ", ".join(f"{count} {state.lower()}" for state, count in sorted(deployment.replica_states.items()))
        message = f": {deployment.message.splitlines()[-1]}" if deployment.message else ""
        yield f"{name}: {deployment.status.value.lower()}, replicas: {states or 'none'}{message}"


def overview() -> ApplicationStatusOverview | None:
    try:
        found = serve.status().applications.get(APPLICATION)
    except RayServeException:
        return None
    return found if found is not None and found.status != ApplicationStatus.DELETING else None


def _serves(deployment: str) -> bool:
    found = overview()
    return found is not None and found.deployments[deployment].replica_states.get("RUNNING", 0) > 0


def _problems() -> str:
    return "; ".join(line for line in status_lines() if "healthy" not in line.split(",")[0])
