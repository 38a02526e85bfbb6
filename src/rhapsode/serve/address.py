"""Addresses of clients: how they are written, and which of them are one client."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
CLIENT_BITS = 64
"""A client with IPv6 has a network of at least this prefix to itself, and could use any of its addresses."""
MOST_HOPS = 16
MOST_CHARS = 64
"""An address with brackets, zone and port is shorter."""


@lru_cache(maxsize=1024)
def address_of(text: str) -> Address | None:
    """Returns the address in a text such as `1.2.3.4`, `1.2.3.4:567`, `::1` or `[::1]:567`; None if there is none.

    An IPv4 address that is written as an IPv6 one is the IPv4 address.
    """
    text = text.strip()
    if len(text) > MOST_CHARS:
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


@lru_cache(maxsize=1024)
def client_network(address: Address) -> str:
    """Returns the addresses that count as one client: with IPv6 the /64 network, otherwise the address alone."""
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((int(address) >> CLIENT_BITS << CLIENT_BITS, CLIENT_BITS)))


def forwarded_for(peer: Address, chain: str, proxies: Sequence[IPv4Network | IPv6Network]) -> Address:
    """Returns the last address, of those in `chain` and then `peer`, that is no trusted proxy.

    Each proxy appends the address it was asked from. So the list is read from its end, up to the first address that is
    not trusted: what precedes it, that client may have invented.
    """
    address = peer
    for hop in reversed(chain.rsplit(",", MOST_HOPS)[-MOST_HOPS:]):
        before = address_of(hop)
        if before is None or not any(address in network for network in proxies):
            return address
        address = before
    return address
