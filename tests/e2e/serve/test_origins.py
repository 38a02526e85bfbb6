"""Web pages of other origins, and names that lead here by rebinding, cannot use a server that has no key."""

from collections.abc import Iterator

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from e2e.serve.running import Running, in_thread

SMALL = {"max_concurrency": 2, "max_positions": 512}
EVIL = "https://evil.example"
UPLOAD = {"files": {"name": (None, "Ada"), "consent": (None, "yes"), "speaker_embedding": (None, "[1, 2]")}}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    with in_thread("dummy", tmp_path_factory.mktemp("plain"), limits=SMALL) as started:
        yield started


@pytest.fixture(scope="module")
def named(tmp_path_factory) -> Iterator[Running]:
    settings = {"allowed_hosts": ["tts.example.org", "*.lan"], "cors_origins": ["https://app.example.org"]}
    with in_thread("dummy", tmp_path_factory.mktemp("named"), limits=SMALL, server=settings) as started:
        yield started


def speak(server: Running, **headers: str) -> int:
    answer = server.http.post("/v1/audio/speech", json={"input": "Hi."}, headers=headers)
    if answer.status_code == 403:
        error = answer.json()["error"]
        assert error["code"] in ("forbidden_origin", "forbidden_host")
        assert "server." in error["message"]
    return answer.status_code


def test_a_page_of_another_origin_cannot_upload_delete_or_speak(server: Running) -> None:
    upload = server.http.post("/v1/audio/voices", headers={"Origin": EVIL}, **UPLOAD)
    assert (upload.status_code, upload.json()["error"]["code"]) == (403, "forbidden_origin")
    assert server.http.delete("/v1/audio/voices/Ada", headers={"Origin": EVIL}).status_code == 403
    assert speak(server, Origin=EVIL) == 403
    assert speak(server, Origin="null") == 403
    assert "Ada" not in server.http.get("/v1/audio/voices").text


def test_its_own_page_and_clients_that_are_no_browsers_can(server: Running) -> None:
    assert speak(server) == 200
    assert speak(server, Origin=server.url) == 200
    assert speak(server, Origin=f"http://localhost:{server.port}", Host=f"localhost:{server.port}") == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", ""]
)
def test_a_name_that_was_bent_to_this_address_is_refused(server: Running, host: str) -> None:
    assert speak(server, Host=host, Origin=f"http://{host}") == 403
    assert speak(server, Host=host) == 403
    assert server.http.get("/v1/audio/voices", headers={"Host": host}).status_code == 403
    assert server.http.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "a.localhost", "127.0.0.1:1", "[::1]:8000", "192.168.1.7"]
)
def test_loopback_names_and_addresses_are_answered(server: Running, host: str) -> None:
    assert speak(server, Host=host) == 200


def test_a_socket_of_another_origin_is_refused(server: Running) -> None:
    for headers in ({"Origin": EVIL}, {"Host": "evil.example"}):
        with pytest.raises(InvalidStatus) as refused:
            connect(server.socket_url, proxy=None, additional_headers=headers)
        assert refused.value.response.status_code == 403
    with connect(server.socket_url, proxy=None, origin=server.url) as socket:
        socket.send('{"type": "session.close"}')


def test_names_and_origins_can_be_allowed(named: Running) -> None:
    assert speak(named, Host="tts.example.org") == 200
    assert speak(named, Host="box.lan:8000") == 200
    assert speak(named, Host="other.example.org") == 403
    assert speak(named, Origin="https://app.example.org") == 200
    assert speak(named, Origin="https://tts.example.org") == 200  # a proxy that does not pass the name on
    assert speak(named, Origin=EVIL) == 403
    with connect(named.socket_url, proxy=None, origin="https://app.example.org") as socket:
        socket.send('{"type": "session.close"}')


def test_a_key_says_more_than_a_name(tmp_path) -> None:
    with in_thread("dummy", tmp_path, limits=SMALL, server={"api_keys": ["sk-one"]}) as server:
        assert speak(server, Host="tts.example.org", Authorization="Bearer sk-one") == 200
        assert speak(server, Host="tts.example.org") == 401
        assert speak(server, Origin=EVIL, Authorization="Bearer sk-one") == 403


def test_any_name_can_be_allowed(tmp_path) -> None:
    with in_thread("dummy", tmp_path, limits=SMALL, server={"allowed_hosts": ["*"]}) as server:
        assert speak(server, Host="anything.example") == 200
        assert speak(server, Host="anything.example", Origin="http://anything.example") == 200
        assert speak(server, Host="anything.example", Origin=EVIL) == 403
