from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.voices.address import is_public

PRIVATE_V4 = {
    "unspecified": "0.0.0.0",
    "this network": "0.1.2.3",
    "private 10": "10.0.0.1",
    "private 172": "172.31.255.255",
    "private 192": "192.168.1.1",
    "carrier-grade NAT": "100.64.0.1",
    "Alibaba metadata": "100.100.100.200",
    "loopback": "127.0.0.1",
    "loopback's end": "127.255.255.254",
    "link-local": "169.254.1.1",
    "cloud metadata": "169.254.169.254",
    "Azure metadata": "168.63.129.16",
    "Oracle metadata": "192.0.0.192",
    "documentation 1": "192.0.2.1",
    "documentation 2": "198.51.100.1",
    "documentation 3": "203.0.113.1",
    "6to4 relay": "192.88.99.1",
    "benchmark": "198.19.255.255",
    "multicast": "224.0.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
}
PRIVATE_V6 = {
    "unspecified": "::",
    "loopback": "::1",
    "unique local": "fd12:3456::1",
    "EC2 metadata": "fd00:ec2::254",
    "link-local": "fe80::1",
    "link-local with a scope": "fe80::1%eth0",
    "global with a scope": "2606:4700::1111%eth0",
    "site-local": "fec0::1",
    "multicast": "ff02::1",
    "documentation": "2001:db8::1",
    "newer documentation": "3fff::1",
    "discard": "100::1",
    "local NAT64": "64:ff9b:1::7f00:1",
    "segment routing": "5f00::1",
    "ISATAP of loopback": "2606:4700::5efe:7f00:1",
    "global ISATAP of loopback": "2606:4700::200:5efe:7f00:1",
}


def embeddings(v4: str) -> dict[str, str]:
    """The IPv6 addresses that stand for an IPv4 one."""
    number = int(IPv4Address(v4))
    return {
        "mapped": str(IPv6Address(0xFFFF << 32 | number)),
        "compatible": str(IPv6Address(number)),
        "translated": str(IPv6Address(0xFFFF << 48 | number)),
        "6to4": str(IPv6Address(0x2002 << 112 | number << 80 | 1)),
        "Teredo": str(IPv6Address(0x2001_0000 << 96 | number ^ 0xFFFF_FFFF)),
        "NAT64": str(IPv6Address(0x64_FF9B << 96 | number)),
    }


@pytest.mark.parametrize("address", PRIVATE_V4.values(), ids=PRIVATE_V4)
def test_an_ipv4_address_that_is_not_public_is_refused(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PRIVATE_V6.values(), ids=PRIVATE_V6)
def test_an_ipv6_address_that_is_not_public_is_refused(address):
    assert not is_public(address)


@pytest.mark.parametrize("inner", PRIVATE_V4.values(), ids=PRIVATE_V4)
def test_no_ipv6_address_smuggles_a_private_ipv4_one(inner):
    assert not [form for form, address in embeddings(inner).items() if is_public(address)]


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "1.1.1.1",
        "2606:4700:4700::1111",
        "172.15.255.255",
        "172.32.0.1",
        "100.128.0.1",
        "9.9.9.9",
    ],
)
def test_a_public_address_is_allowed(address):
    assert is_public(address)


def test_only_nat64_may_stand_for_a_public_ipv4_address():
    assert [form for form, address in embeddings("8.8.8.8").items() if is_public(address)] == ["NAT64"]


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "2130706433", "0177.0.0.1", "::1::", "1.1.1.1 "])
def test_what_is_no_address_is_not_public(text):
    assert not is_public(text)


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_public(address):
    inside = not address.is_global or address.is_multicast or address.is_loopback or address.is_link_local
    assert not (inside and is_public(str(address)))
