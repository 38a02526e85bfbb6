"""Parses the URL of a reference strictly: refuses a URL that different parsers read differently."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Self
from urllib.parse import quote, urljoin, urlsplit

from rhapsode.errors import InvalidRequest

MAX_URL_CHARS = 8192

_PORTS = {"http": 80, "https": 443}
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f-\x9f\\]")  # parsers disagree about each of them
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)]|([^][:@]+))(?::([0-9]{0,5}))?")
_HOST_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.(?!-)[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_BAD_HOST = "The host of the reference URL is not a valid name or address."
_LEFT_AS_IS = "/?%:@!$&'()*+,;=~-._[]"


@dataclass(frozen=True)
class Target:
    """The parts of a checked URL."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parses an http(s) URL without user name or password; else `InvalidRequest`."""
        if len(url) > MAX_URL_CHARS:
            raise refusal(f"The reference URL is too long: at most {MAX_URL_CHARS} characters are allowed.")
        if _AMBIGUOUS.search(url):
            raise refusal("The reference URL contains spaces, backslashes or control characters.")
        try:
            parts = urlsplit(url)
            path = quote(parts.path or "/", safe=_LEFT_AS_IS)
            query = quote(parts.query, safe=_LEFT_AS_IS)
        except ValueError:
            raise refusal("The reference URL is not a valid URL.") from None
        if parts.scheme not in _PORTS:
            raise refusal("The reference URL must start with https:// or http://.")
        if "@" in parts.netloc:
            raise refusal("The reference URL must not contain a user name or a password.")
        authority = _AUTHORITY.fullmatch(parts.netloc)
        port = int(authority[3] or _PORTS[parts.scheme]) if authority else 0
        if not authority or not 0 < port < 65_536:
            raise refusal("The reference URL is not a valid URL.")
        host = _checked_address(authority[1]) if authority[1] else _checked_name(authority[2])
        return cls(parts.scheme, host, port, f"{path}?{query}" if query else path)

    def redirected(self, location: str) -> Target:
        """Returns the target of a redirect; a redirect from https to http is refused."""
        try:
            url = urljoin(self.url, location)
        except ValueError:
            raise refusal("The reference URL redirects to what is not a valid URL.") from None
        target = Target.parse(url)
        if self.scheme == "https" and target.scheme != "https":
            raise refusal("The reference URL redirects from https to http.")
        return target

    def is_among(self, hosts: Iterable[str]) -> bool:
        """Tells whether the host is one of these: exact names, or `*.suffix` for the names below it."""
        return any(
            self.host.endswith(host[1:]) if host.startswith("*.") else self.host == host.rstrip(".")
            for host in map(str.lower, hosts)
        )

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def refusal(message: str) -> InvalidRequest:
    return InvalidRequest(message, param="ref_audio")


def _checked_address(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except ValueError:
        raise refusal(_BAD_HOST) from None


def _checked_name(name: str) -> str:
    """Returns the host as ASCII: a name, or an IPv4 address in its usual form."""
    try:
        host = name.encode("idna").decode("ascii").lower().removesuffix(".")
        if _NUMBER.fullmatch(host.rpartition(".")[2]):  # C libraries read 2130706433, 0177.1 and 0x7f.1 as addresses
            return str(IPv4Address(host))
    except ValueError:
        raise refusal(_BAD_HOST) from None
    if len(host) > 253 or not _HOST_NAME.fullmatch(host):
        raise refusal(_BAD_HOST)
    return host
