"""Connects only to checked addresses: look-up, check and connect are one step."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self

import httpcore

from rhapsode.voices.address import is_public
from rhapsode.voices.target import refusal

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_MAX_ATTEMPTS = 4
# Separate threads, so that slow look-ups delay nothing but other look-ups.
_LOOK_UPS = ThreadPoolExecutor(16, thread_name_prefix="rhapsode-look-up")


async def look_up(host: str, port: int) -> list[str]:
    """Returns the addresses of a host from the system's resolver."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_LOOK_UPS, ask)
    return [str(address[0]) for *_, address in found]


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Resolves a host once, refuses it unless all its addresses are public, and connects to a checked address."""

    def __init__(self, network: httpcore.AsyncNetworkBackend, resolve: Resolve, allow_private: bool) -> None:
        self._network = network
        self._resolve = resolve
        self._allow_private = allow_private
        self._streams: list[httpcore.AsyncNetworkStream] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        async with asyncio.timeout(timeout):
            addresses = await self._checked_addresses(host, port)
            share_s = timeout / len(addresses) if timeout else None
            for number, address in enumerate(addresses, 1):
                try:
                    stream = await self._network.connect_tcp(address, port, share_s, local_address, socket_options)
                except (httpcore.ConnectError, httpcore.ConnectTimeout):
                    if number == len(addresses):
                        raise
                else:
                    self._streams.append(stream)
                    return stream
        raise AssertionError("there is at least one address")

    async def _checked_addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = await self._resolve(host, port)
        except (socket.gaierror, UnicodeError):
            addresses = ()
        # One message for both cases, so that it does not reveal which internal names exist.
        if not addresses or not (self._allow_private or all(map(is_public, addresses))):
            raise refusal("The host of the reference URL is unknown or not on the public internet.")
        return addresses[:_MAX_ATTEMPTS]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for stream in self._streams:  # httpcore leaves a socket open when its TLS handshake is cancelled
            await stream.aclose()
