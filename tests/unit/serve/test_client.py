"""Who a client is: a key, or an address, which only a trusted proxy or a cluster's edge may name."""

import asyncio

import pytest
from pydantic import SecretStr, ValidationError

from rhapsode.config.server import ServerConfig
from rhapsode.serve.client import EDGE_HEADER, Clients, client_of, vouched
from rhapsode.serve.middleware.auth import ApiKeys

PROXY = "10.0.0.7"


def found(peer=PROXY, *, kind="http", keys=(), proxies=(), secret="", **headers):
    """Returns the client that the middleware finds in a request with these headers."""
    seen = []

    async def app(scope, receive, send):
        seen.append(client_of(scope))

    app = Clients(app, ServerConfig(trusted_proxies=proxies).trusted_proxies, secret)
    app = ApiKeys(app, [SecretStr(key) for key in keys]) if keys else app
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "path": "/v1/x", "method": "POST", "headers": raw, "client": (peer, 4711) if peer else None}
    asyncio.run(app(scope, None, None))
    return seen[0]


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_without_keys_a_client_is_its_address(kind):
    assert found("192.0.2.1", kind=kind) == "192.0.2.1"
    assert found("::ffff:192.0.2.1", kind=kind) == "192.0.2.1"


def test_with_keys_a_client_is_its_key_wherever_it_comes_from():
    asked = {"keys": ("sk-one", "sk-two")}
    one = found("192.0.2.1", **asked, authorization="Bearer sk-one")
    assert one == found("192.0.2.2", **asked, xi_api_key="sk-one") != found(**asked, authorization="Bearer sk-two")
    assert one.startswith("key:")
    assert "sk-one" not in one


def test_a_key_on_a_server_without_keys_makes_nobody_another_client():
    assert found("192.0.2.1", authorization="Bearer invented") == "192.0.2.1"


def test_addresses_of_one_ipv6_network_are_one_client():
    assert found("2001:db8:0:1::1") == found("2001:db8:0:1:ffff::9") == "2001:db8:0:1::/64"
    assert found("2001:db8:0:2::1") != found("2001:db8:0:1::1")


def test_nobody_is_trusted_by_default_also_not_on_loopback():
    for peer in ("127.0.0.1", "::1", PROXY):
        assert found(peer, x_forwarded_for="192.0.2.1", forwarded="for=192.0.2.1") == found(peer)


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ({"x_forwarded_for": "192.0.2.1"}, "192.0.2.1"),
        ({"x_forwarded_for": "198.51.100.9, 192.0.2.1"}, "192.0.2.1"),  # what precedes it may be invented
        ({"x_forwarded_for": "192.0.2.1, 10.9.9.9"}, "192.0.2.1"),  # two proxies in a row
        ({"x_forwarded_for": "192.0.2.1:5060"}, "192.0.2.1"),
        ({"x_forwarded_for": "[2001:db8::5]:443"}, "2001:db8::/64"),
        ({"x_forwarded_for": "10.1.1.1, 10.9.9.9"}, "10.1.1.1"),  # a client in the proxies' own network
        ({"x_forwarded_for": "x, 10.9.9.9"}, "10.9.9.9"),
        ({"x_forwarded_for": ""}, PROXY),
        ({"x_forwarded_for": "x" * 5000}, PROXY),
        ({"x_forwarded_for": "10.1.1.1," * 5000 + "192.0.2.1"}, "192.0.2.1"),
        ({"forwarded": 'for=192.0.2.9;proto=https, For="192.0.2.1:80";by=10.0.0.7'}, "192.0.2.1"),
        ({"forwarded": 'for="[2001:db8::5]:443"'}, "2001:db8::/64"),
        ({"forwarded": "for=_hidden"}, PROXY),
        ({"forwarded": "proto=https"}, PROXY),
        ({"x_forwarded_for": "192.0.2.1", "forwarded": "for=192.0.2.1"}, "192.0.2.1"),
        ({"x_forwarded_for": "192.0.2.1", "forwarded": "for=198.51.100.9"}, PROXY),  # one of them is forged
    ],
)
def test_a_trusted_proxy_names_the_last_address_that_is_no_proxy(headers, client):
    assert found(PROXY, proxies="10.0.0.0/8", **headers) == client


def test_an_edge_names_the_client_and_only_who_knows_its_secret_is_one():
    assert EDGE_HEADER == b"x-rhapsode-client"
    assert found(secret="s3cret", x_rhapsode_client=vouched("s3cret", "192.0.2.1")) == "192.0.2.1"
    for secret, header in (("s3cret", "guessed 192.0.2.1"), ("", " 192.0.2.1"), ("s3cret", "s3cret"), ("s3cret", "")):
        assert found(secret=secret, x_rhapsode_client=header) == PROXY


def test_a_connection_without_an_address_is_one_client():
    assert found(None) == "unknown"


def test_what_is_no_network_is_refused_with_its_text():
    assert [str(network) for network in ServerConfig(trusted_proxies="127.0.0.1, ::1").trusted_proxies] == [
        "127.0.0.1/32",
        "::1/128",
    ]
    with pytest.raises(ValidationError, match=r"'proxy\.example\.org' is no address and no network"):
        ServerConfig(trusted_proxies=["proxy.example.org"])
