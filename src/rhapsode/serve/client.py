"""Tells clients apart, so that limits apply to each of them.

A client is an API key or, on a server without keys, an address. A proxy would make all its clients one, so addresses in
`server.trusted_proxies` may say for whom they ask. Nobody else may, also not programs on the same machine: whoever can
name itself freely is as many clients as it likes.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from rhapsode.serve.address import address_of, client_network, forwarded_for
from rhapsode.serve.listener import Listener, listener
from rhapsode.serve.observe.caller import caller
from rhapsode.serve.request.header import header

EDGE_HEADER = b"x-rhapsode-client"
"""Set by a cluster's edge on what it sends to a replica: the replica's secret, a space, and the client."""
UNKNOWN = "unknown"

Networks = Sequence[IPv4Network | IPv6Network]


def client_of(scope: Mapping[str, Any]) -> str:
    """Returns who sent a request: what `Clients` found, or the connection's address where it has not run."""
    return str(scope.get("state", {}).get("client") or client_at(scope.get("client")))


def client_at(peer: Sequence[object] | None, proxies: Networks = (), chains: Sequence[str] = ()) -> str:
    """Returns the client behind a connection from `peer`, a pair of address and port.

    `chains` are the lists of addresses that the request's headers give, as in `X-Forwarded-For`. The client is the last
    address that is no trusted proxy. If two headers disagree, one of them is forged, so the proxy itself is the client.
    """
    address = address_of(str(peer[0])) if peer else None
    if address is None:
        return UNKNOWN
    found = {client_network(forwarded_for(address, chain, proxies)) for chain in chains} or {client_network(address)}
    return found.pop() if len(found) == 1 else client_network(address)


class Clients:
    """Notes in each request's `scope["state"]["client"]` who sent it. Runs inside `ApiKeys`, which checks the keys."""

    def __init__(self, app: ASGIApp, proxies: Networks = (), edge_secret: str = "") -> None:
        """`edge_secret` is what an edge sends to prove that it is one; without a secret there is no edge."""
        self._app = app
        self._proxies = proxies
        self._secret = edge_secret.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            state = scope.setdefault("state", {})
            state["client"] = self._named_by_edge(scope) or self._own(scope)
            connection = {name: state[name] for name in ("unread_bytes", "reset") if name in state}
            listener.set(Listener(state["client"], **connection))
        await self._app(scope, receive, send)

    def _named_by_edge(self, scope: Scope) -> str:
        secret, _, client = header(scope, EDGE_HEADER).partition(" ")
        is_edge = bool(self._secret) and hmac.compare_digest(secret.encode("latin-1"), self._secret)
        return client if is_edge else ""

    def _own(self, scope: Scope) -> str:
        if key := caller.get():
            return f"key:{key}"
        return client_at(scope.get("client"), self._proxies, _chains(scope) if self._proxies else ())


def vouched(secret: str, client: str) -> str:
    """Returns the value of the header by which an edge tells a replica for whom it asks."""
    return f"{secret} {client}"


def _chains(scope: Scope) -> list[str]:
    """Returns the addresses that proxies have noted: a comma-separated list for each kind of header."""
    plain = [str(value, "latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    standard = [str(value, "latin-1") for name, value in scope["headers"] if name == b"forwarded"]
    chains = [",".join(plain)] if plain else []
    if standard:
        chains.append(",".join(_for(element) for element in ",".join(standard).split(",")))
    return chains


def _for(element: str) -> str:
    """Returns the `for` of one element of a `Forwarded` header, empty if it has none."""
    for pair in element.split(";"):
        name, _, value = pair.partition("=")
        if name.strip().lower() == "for":
            return value.strip().strip('"')
    return ""
