"""The ports of a server. They are taken before anything is fetched or loaded: another server may have them."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from rhapsode.config.server import ServerConfig
from rhapsode.errors import OutputError

SEND_BUFFER_BYTES = 2**17  # the kernel would keep megabytes for a client that does not read
BACKLOG = 2048


@dataclass(frozen=True)
class Ports:
    """Ports that are taken. Connections are refused until `listen` is called."""

    http: socket.socket
    wyoming: socket.socket | None

    def listen(self) -> None:
        for taken in (self.http, *((self.wyoming,) if self.wyoming is not None else ())):
            _listen(taken)


def take_ports(config: ServerConfig) -> Ports:
    """Takes the ports of a server; raises an error if another has them."""
    wyoming = config.wyoming
    http = take_port(config.host, config.port)
    return Ports(http, None if wyoming.port is None else take_port(wyoming.host, wyoming.port))


def take_port(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Returns a socket that has a port and does not listen yet. With `shared`, several processes may have it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named; without it, small packets wait for the client's reply.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _no_port(host, port, error) from None
    return listener


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Returns a listening socket. With `shared`, several processes may listen on the same port."""
    return _listen(take_port(host, port, shared=shared))


def _listen(taken: socket.socket) -> socket.socket:
    host, port = taken.getsockname()[:2]
    try:
        taken.listen(BACKLOG)
    except OSError as error:  # another took it at the same moment, and listens
        taken.close()
        raise _no_port(host, port, error) from None
    return taken


def _no_port(host: str, port: int, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(f"cannot listen on {host} port {port}: {reason.lower()}.")
