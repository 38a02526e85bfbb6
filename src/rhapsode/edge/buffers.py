"""Small buffers on the way of audio through an edge.

A replica takes the slot of a client that does not read. It sees only how fast the edge reads, so the edge must not read
much that its client has not.
"""

from __future__ import annotations

import socket
from typing import Any

BYTES = 2**12
"""Of each buffer: a twelfth of a second of 16-bit samples at 24 kHz."""


def from_replica(address: Any) -> socket.socket:
    """Returns a socket that receives little in advance; `address` is an entry of `getaddrinfo`."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    keep_small(made)
    return made


def keep_small(made: socket.socket) -> None:
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BYTES)


def to_clients(listener: socket.socket) -> None:
    """Makes accepted connections hold few bytes that cannot be sent yet. Bytes on their way do not count, so distant
    clients lose no speed."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, BYTES)
