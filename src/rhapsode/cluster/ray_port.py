"""The port that Ray Serve opens in every replica, for calls between deployments."""

from __future__ import annotations

import functools
import logging

import ray.serve._private.replica as of_ray
import ray.util

log = logging.getLogger("rhapsode.cluster")
OPENS_PORT = "add_port_to_grpc_server"


def bind_to_node() -> None:
    """Lets Ray open that port on this node's address instead of on all of them. To be called before a replica is ready.

    No setting of Ray says where, or turns the port off, so a function of Ray is replaced in this process.
    """
    opens = getattr(of_ray, OPENS_PORT, None)
    if opens is None:
        log.warning("Ray opens a port of this replica on all addresses: this version of Ray is not known here")
        return
    node = ray.util.get_node_ip_address()
    host = f"[{node}]" if ":" in node else node

    @functools.wraps(opens)
    def open_on_node(server: object, address: str) -> object:
        return opens(server, f"{host}:{address.rpartition(':')[2]}")

    setattr(of_ray, OPENS_PORT, open_on_node)
