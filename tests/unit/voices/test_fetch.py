from __future__ import annotations

import asyncio
import gzip
import ssl
import time

import pytest
import trustme

from rhapsode.errors import BadAudio, InvalidRequest
from rhapsode.voices.fetch import FetchLimits, ReferenceFetcher
from unit.voices.web import PUBLIC, Web, ok, redirect

AUDIO = b"RIFF some audio"
QUICK = FetchLimits(max_bytes=1000, connect_s=0.3, read_s=0.3, total_s=0.6)


def refusal(web: Web, url: str = "http://a.com/", limits: FetchLimits = QUICK, **options) -> str:
    with pytest.raises(InvalidRequest) as caught:
        web.fetch(url, limits, **options)
    assert caught.value.param == "ref_audio"
    assert caught.value.status == 400
    return caught.value.message


def bad_audio(web: Web, limits: FetchLimits = QUICK, **options) -> str:
    with pytest.raises(BadAudio) as caught:
        web.fetch("http://a.com/", limits, **options)
    assert caught.value.param == "ref_audio"
    return caught.value.message


def test_the_body_behind_a_url_is_fetched():
    web = Web({"/v/a.wav?x=1": ok(AUDIO)})
    assert web.fetch("http://a.com:81/v/a.wav?x=1#top") == AUDIO
    assert web.dialled == [(PUBLIC, 81)]
    assert b"\r\nHost: a.com:81\r\n" in web.requests[0]
    assert b"\r\nAccept-Encoding: identity\r\n" in web.requests[0]


def test_an_ipv6_host_is_named_in_brackets():
    web = Web({"/": ok(AUDIO)}, names={"2606:4700::1": [["2606:4700::1"]]})
    assert web.fetch("http://[2606:4700:0::1]:81/") == AUDIO
    assert web.dialled == [("2606:4700::1", 81)]
    assert b"\r\nHost: [2606:4700::1]:81\r\n" in web.requests[0]


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://10.0.0.1:3128")
    web = Web({"/": ok(AUDIO)})
    assert web.fetch("http://a.com/") == AUDIO
    assert web.dialled == [(PUBLIC, 80)]


# Where it may not go


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "fe80::1",
    ],
)
def test_a_name_that_leads_inside_is_refused_before_any_connection(address):
    web = Web({"/": ok(AUDIO)}, names={"a.com": [[address]]})
    message = refusal(web)
    assert "not on the public internet" in message
    assert address not in message
    assert web.dialled == []


@pytest.mark.parametrize("inside", ["127.0.0.1", "fd00::1"])
def test_one_private_address_among_public_ones_is_enough_to_refuse(inside):
    web = Web({"/": ok(AUDIO)}, names={"a.com": [[PUBLIC, inside]]})
    refusal(web)
    assert web.dialled == []


def test_an_unknown_name_is_refused_in_the_words_used_for_a_private_one():
    assert refusal(Web({}, names={"a.com": [[]]})) == refusal(Web({}, names={"a.com": [["10.0.0.1"]]}))


def test_a_name_is_looked_up_once_and_the_checked_address_is_dialled():
    web = Web({"/": ok(AUDIO)}, names={"a.com": [[PUBLIC], ["127.0.0.1"]]})
    assert web.fetch("http://a.com/") == AUDIO
    assert web.looked_up == ["a.com"]
    assert web.dialled == [(PUBLIC, 80)]


def test_a_name_that_changes_between_two_redirects_is_refused():
    web = Web({"/": redirect("/again"), "/again": ok(AUDIO)}, names={"a.com": [[PUBLIC], ["127.0.0.1"]]})
    assert "not on the public internet" in refusal(web)
    assert web.dialled == [(PUBLIC, 80)]


def test_the_next_address_is_tried_when_one_is_dead():
    web = Web({"/": ok(AUDIO)}, names={"a.com": [["2606:4700::1", PUBLIC]]}, dead=frozenset({"2606:4700::1"}))
    assert web.fetch("http://a.com/") == AUDIO
    assert [host for host, _ in web.dialled] == ["2606:4700::1", PUBLIC]


def test_dead_addresses_are_tried_a_few_times_only():
    addresses = [f"1.1.1.{n}" for n in range(1, 100)]
    web = Web({"/": ok(AUDIO)}, names={"a.com": [addresses]}, dead=frozenset(addresses))
    assert "unreachable" in bad_audio(web)
    assert len(web.dialled) == 4


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://localhost./",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0/",
        "http://１２７.０.０.１/",
        "http://good.com@127.0.0.1/",
        "http://127.0.0.1#@good.com",
        "http://good.com\\@127.0.0.1",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
def test_no_spelling_of_an_inside_address_gets_through_the_system_resolver(url):
    async def attempt() -> None:
        reached = asyncio.Event()
        server = await asyncio.start_server(lambda *_: reached.set(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            for target in (url, url.replace("127.0.0.1/", f"127.0.0.1:{port}/")):
                with pytest.raises(InvalidRequest, match=r"public internet|not a valid|user name|backslashes"):
                    await ReferenceFetcher(QUICK).fetch(target)
        assert not reached.is_set()

    asyncio.run(attempt())


def test_those_who_allow_private_addresses_reach_them_over_the_real_network():
    async def run() -> bytes:
        web = Web({"/a.wav": ok(AUDIO)})
        server = await asyncio.start_server(web._serve, "127.0.0.1", 0)
        async with server:
            url = f"http://localhost:{server.sockets[0].getsockname()[1]}/a.wav"
            return await ReferenceFetcher(FetchLimits(allow_private=True)).fetch(url)

    assert asyncio.run(run()) == AUDIO


def test_allowing_private_addresses_does_not_make_an_unknown_name_known():
    limits = FetchLimits(allow_private=True)
    assert "unknown" in refusal(Web({}, names={"a.com": [[]]}), limits=limits)


def test_only_hosts_on_the_list_are_reached():
    limits = FetchLimits(allow_hosts=("a.com", "*.b.com"))
    assert Web({"/": ok(AUDIO)}).fetch("http://a.com/", limits) == AUDIO
    assert Web({"/": ok(AUDIO)}).fetch("http://cdn.b.com/", limits) == AUDIO
    web = Web({"/": redirect("http://c.com/there"), "/there": ok(AUDIO)})
    assert "list of allowed hosts" in refusal(web, limits=limits)
    assert web.looked_up == ["a.com"]


def test_a_host_on_the_list_must_still_be_public():
    web = Web({"/": ok(AUDIO)}, names={"a.com": [["10.0.0.1"]]})
    assert "public internet" in refusal(web, limits=FetchLimits(allow_hosts=("a.com",)))


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status):
    web = Web({"/": redirect("http://b.com/there", status), "/there": ok(AUDIO)})
    assert web.fetch("http://a.com/") == AUDIO
    assert web.looked_up == ["a.com", "b.com"]
    assert b"\r\nHost: b.com\r\n" in web.requests[1]


def test_three_redirects_are_followed_and_a_fourth_is_not():
    hops = {"/": redirect("/1"), "/1": redirect("/2"), "/2": redirect("/3")}
    assert Web({**hops, "/3": ok(AUDIO)}).fetch("http://a.com/") == AUDIO
    assert "more than 3 times" in refusal(Web({**hops, "/3": redirect("/4"), "/4": ok(AUDIO)}))


@pytest.mark.parametrize(
    "location",
    [
        "http://inside.com/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "//2130706433/",
        "http://good.com@127.0.0.1/",
        "file:///etc/passwd",
        "http://[",
    ],
)
def test_a_redirect_inside_is_refused(location):
    names = {"inside.com": [["10.0.0.1"]], "127.0.0.1": [["127.0.0.1"]], "::1": [["::1"]]}
    web = Web({"/": redirect(location)}, names=names)
    refusal(web)
    assert web.dialled == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /\xff\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_redirect_to_nowhere_is_an_error(answer):
    assert "redirects to nowhere" in bad_audio(Web({"/": answer}))


# What may come back


@pytest.mark.parametrize(
    "status", ["201 Created", "204 No Content", "206 Partial Content", "404 Not Found", "500 Oops"]
)
def test_only_status_200_is_audio(status):
    web = Web({"/": f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()})
    assert f"answered {status[:3]}, not 200" in bad_audio(web)


def test_chunked_bodies_are_joined():
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nRIFF \r\na\r\nsome audio\r\n0\r\n\r\n"
    assert Web({"/": chunks}).fetch("http://a.com/") == AUDIO


def test_a_body_may_end_with_the_connection():
    assert Web({"/": b"HTTP/1.0 200 OK\r\n\r\n" + AUDIO}).fetch("http://a.com/") == AUDIO


def test_a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_not():
    assert len(Web({"/": ok(bytes(1000))}).fetch("http://a.com/", QUICK)) == 1000
    assert "at most 1000 bytes" in bad_audio(Web({"/": b"HTTP/1.0 200 OK\r\n\r\n" + bytes(1001)}))


def test_a_length_over_the_limit_is_refused_before_the_body_comes():
    web = Web({"/": b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"})
    assert "too large" in bad_audio(web)


@pytest.mark.parametrize("headers", [b"Transfer-Encoding: chunked\r\n", b""])
def test_an_endless_body_is_cut_at_the_limit(headers):
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(65536) + b"\r\n" if headers else bytes(65536))
            await writer.drain()
            sent += 65536

    limits = FetchLimits(max_bytes=300_000, total_s=5)
    assert "too large" in bad_audio(Web({"/": endless}), limits)
    assert sent < 20 * 2**20


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + AUDIO,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nRIFF ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000,
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
    ids=[
        "cut",
        "cut chunks",
        "gzip transfer",
        "negative",
        "two lengths",
        "huge length",
        "huge header",
        "ssh",
        "silence",
    ],
)
def test_an_answer_that_is_cut_or_not_http_is_bad_audio(answer):
    message = bad_audio(Web({"/": answer}))
    assert "broke off" in message or "too large" in message


def test_more_bytes_than_the_length_says_are_not_read():
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nRIFF" + bytes(5000)
    assert Web({"/": answer}).fetch("http://a.com/", QUICK) == b"RIFF"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip", "GZIP", "zstd"])
def test_compressed_bodies_are_refused_however_small(encoding):
    bomb = gzip.compress(bytes(500_000))
    assert len(bomb) < QUICK.max_bytes
    assert "compressed" in bad_audio(Web({"/": ok(bomb, f"Content-Encoding: {encoding}")}))


def test_the_identity_encoding_is_no_compression():
    assert Web({"/": ok(AUDIO, "Content-Encoding: Identity")}).fetch("http://a.com/") == AUDIO


def test_an_empty_body_is_an_error():
    assert "empty" in bad_audio(Web({"/": ok(b"")}))


# How long it may take


async def silence(_: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
    for _ in range(900):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def drip_headers(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("answer", [drip, drip_headers])
def test_a_server_that_keeps_dripping_is_given_up(answer):
    started = time.monotonic()
    assert "too long" in bad_audio(Web({"/": answer}), FetchLimits(read_s=20, total_s=0.4))
    assert time.monotonic() - started < 5


def test_a_silent_server_is_given_up():
    started = time.monotonic()
    assert "too long" in bad_audio(Web({"/": silence}), FetchLimits(read_s=0.2, total_s=20))
    assert time.monotonic() - started < 5


def test_a_slow_look_up_is_given_up():
    web = Web({"/": ok(AUDIO)})

    async def never(host: str, port: int) -> list[str]:
        await asyncio.sleep(30)
        return [PUBLIC]

    web.resolve = never  # type: ignore[method-assign]
    started = time.monotonic()
    assert "too long" in bad_audio(web, FetchLimits(connect_s=0.2, total_s=20))
    assert time.monotonic() - started < 5


def test_a_cancelled_fetch_is_cancelled():
    async def run() -> None:
        web = Web({"/": silence})
        server = await asyncio.start_server(web._serve, "127.0.0.1", 0)
        web._port = server.sockets[0].getsockname()[1]
        async with server:
            task = asyncio.create_task(ReferenceFetcher(resolve=web.resolve, network=web).fetch("http://a.com/"))
            while not web.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())


# TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def tls_web(authority: trustme.CA, name: str, **options) -> Web:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    web = Web(server_tls=context, **options)
    context.sni_callback = lambda _socket, server_name, _context: web.server_names.append(server_name)
    return web


@pytest.fixture(scope="module")
def trust(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_tls_is_verified_against_the_name_and_not_the_address(authority, trust):
    web = tls_web(authority, "a.com", answers={"/": ok(AUDIO)})
    assert web.fetch("https://a.com/", trust=trust) == AUDIO
    assert web.server_names == ["a.com"]
    assert web.dialled == [(PUBLIC, 443)]


@pytest.mark.parametrize("certified", ["b.com", PUBLIC])
def test_a_certificate_for_another_name_is_refused(authority, trust, certified):
    web = tls_web(authority, certified, answers={"/": ok(AUDIO)})
    with pytest.raises(BadAudio, match="unreachable"):
        web.fetch("https://a.com/", trust=trust)
    assert web.requests == []


def test_a_certificate_of_an_unknown_authority_is_refused(authority):
    web = tls_web(authority, "a.com", answers={"/": ok(AUDIO)})
    with pytest.raises(BadAudio, match="unreachable"):
        web.fetch("https://a.com/")
    assert web.requests == []


def test_a_redirect_from_https_to_http_is_refused(authority, trust):
    web = tls_web(authority, "a.com", answers={"/": redirect("http://a.com/there"), "/there": ok(AUDIO)})
    assert "from https to http" in refusal(web, "https://a.com/", trust=trust)


def test_a_tls_handshake_that_never_ends_is_given_up_and_its_socket_closed():
    closed = []

    async def run() -> None:
        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1000):
                pass
            closed.append(True)
            writer.close()

        web = Web({})
        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        web._port = server.sockets[0].getsockname()[1]
        async with server:
            for limits in (FetchLimits(connect_s=0.2), FetchLimits(connect_s=9, total_s=0.2)):
                with pytest.raises(BadAudio, match="too long"):
                    await ReferenceFetcher(limits, resolve=web.resolve, network=web).fetch("https://a.com/")
            await asyncio.sleep(0.1)

    asyncio.run(run())
    assert len(closed) == 2
