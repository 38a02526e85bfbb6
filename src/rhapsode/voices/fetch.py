"""Fetches reference audio from a URL of a user, within limits, and by default only from public addresses."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from functools import cache

import httpcore

from rhapsode.errors import BadAudio
from rhapsode.voices.data_url import is_data_url, parse_data_url
from rhapsode.voices.guard import GuardedNetwork, Resolve, look_up
from rhapsode.voices.target import Target, refusal

__all__ = ["FetchLimits", "ReferenceFetcher", "is_data_url", "is_remote", "parse_data_url"]

_HEADERS = (("User-Agent", "rhapsode"), ("Accept", "*/*"), ("Accept-Encoding", "identity"))
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class FetchLimits:
    """Limits of size, time and hosts."""

    max_bytes: int = 25 * 2**20
    connect_s: float = 5.0
    """For look-up and connection, and again for TLS."""
    read_s: float = 10.0
    """The longest time without data."""
    total_s: float = 30.0
    max_redirects: int = 3
    allow_hosts: tuple[str, ...] = ()
    """Exact names or `*.suffix`; when empty, every public host is allowed."""
    allow_private: bool = False
    """Also reach private and loopback addresses: for audio on the own network, and for tests."""


def is_remote(url: str) -> bool:
    """Tells whether this is an http(s) URL."""
    return url[:8].lower().startswith(("http://", "https://"))


class ReferenceFetcher:
    """Fetches audio over http(s), within limits, without proxies, cookies or kept connections."""

    def __init__(
        self,
        limits: FetchLimits | None = None,
        *,
        resolve: Resolve = look_up,
        network: httpcore.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits or FetchLimits()
        self._resolve = resolve
        self._network = network or httpcore.AnyIOBackend()
        self._ssl_context = ssl_context or _usual_trust()

    async def fetch(self, url: str) -> bytes:
        """Returns the body behind `url`; `InvalidRequest` if the URL is not allowed, `BadAudio` if the fetch fails."""
        target = Target.parse(url)
        try:
            async with asyncio.timeout(self._limits.total_s):
                return await self._follow(target)
        except (TimeoutError, httpcore.TimeoutException):
            raise _bad("The reference audio took too long to fetch.") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError):
            raise _bad("The reference audio cannot be fetched: its server is unreachable or broke off.") from None

    async def _follow(self, target: Target) -> bytes:
        limits = self._limits
        async with (
            GuardedNetwork(self._network, self._resolve, limits.allow_private) as network,
            httpcore.AsyncConnectionPool(
                ssl_context=self._ssl_context, network_backend=network, max_keepalive_connections=0
            ) as pool,
        ):
            for _ in range(limits.max_redirects + 1):
                if limits.allow_hosts and not target.is_among(limits.allow_hosts):
                    raise refusal("The host of the reference URL is not on this server's list of allowed hosts.")
                found = await self._request(pool, target)
                if isinstance(found, bytes):
                    return found
                target = found
        raise refusal(f"The reference URL redirects more than {limits.max_redirects} times.")

    async def _request(self, pool: httpcore.AsyncConnectionPool, target: Target) -> bytes | Target:
        """Returns the body, or the target of a redirect."""
        limits = self._limits
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        headers = [("Host", target.authority), *_HEADERS]
        timeout = {"connect": limits.connect_s, "read": limits.read_s, "write": limits.read_s, "pool": None}
        async with pool.stream("GET", url, headers=headers, extensions={"timeout": timeout}) as response:
            if response.status in _REDIRECTS:
                return target.redirected(_location(response))
            return await _body(response, limits.max_bytes)


@cache
def _usual_trust() -> ssl.SSLContext:
    return httpcore.default_ssl_context()  # takes a tenth of a second


def _location(response: httpcore.Response) -> str:
    locations = _values(response, b"location")
    try:
        if len(locations) == 1:
            return locations[0].decode("utf-8")
    except UnicodeDecodeError:
        pass
    raise _bad("The server of the reference audio redirects to nowhere.")


async def _body(response: httpcore.Response, max_bytes: int) -> bytes:
    if response.status != 200:
        raise _bad(f"The server of the reference audio answered {response.status}, not 200.")
    if any(value.lower() not in (b"", b"identity") for value in _values(response, b"content-encoding")):
        raise _bad("The server of the reference audio sent it compressed, which is not accepted.")
    too_large = _bad(f"The reference audio is too large: at most {max_bytes} bytes are allowed.")
    if any(int(value) > max_bytes for value in _values(response, b"content-length")):
        raise too_large
    body = bytearray()
    async for part in response.aiter_stream():
        if len(body) + len(part) > max_bytes:
            raise too_large
        body += part
    if not body:
        raise _bad("The reference audio is empty: it has no bytes.")
    return bytes(body)


def _values(response: httpcore.Response, name: bytes) -> list[bytes]:
    return [value.strip() for header, value in response.headers if header.lower() == name]


def _bad(message: str) -> BadAudio:
    return BadAudio(message, param="ref_audio")
