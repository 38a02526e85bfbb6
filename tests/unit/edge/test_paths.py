"""The paths of an edge: each of one server's, and nothing that loads a model for a visitor without a key."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import Route, WebSocketRoute

from e2e.serve.running import Running, in_thread
from rhapsode.config import Deployment
from rhapsode.config.cluster import read_cluster
from rhapsode.edge.edge import Edge
from rhapsode.edge.fleet import Fleet, ModelFleet
from rhapsode.serve.app import create_app
from unit.edge.test_edge import LIMITS, Servers, edge_before


def paths(router: object) -> Iterator[tuple[str, str]]:
    """The methods and paths of a server, also of the routers that it includes."""
    for one in getattr(router, "routes", ()):
        if isinstance(one, Route):
            yield from ((method, one.path) for method in one.methods or ())
        elif not isinstance(one, WebSocketRoute):
            yield from paths(one.original_router)


OWN = sorted(paths(create_app(Deployment(model="dummy")).router))


def test_a_server_has_paths() -> None:
    assert len(OWN) > 30


@pytest.mark.parametrize(("method", "path"), OWN)
def test_an_edge_has_every_path_of_a_server(method: str, path: str) -> None:
    config = read_cluster({"models": {"dummy": None}}, env={})
    edge = Edge(config, Fleet({"dummy": ModelFleet("dummy", Servers({}), 1, 1)}))
    scope = {"type": "http", "method": method, "path": path.replace("{name:path}", "a/b").replace("{", "").rstrip("}")}
    assert any(route.matches(scope)[0].name == "FULL" for route in edge._routes)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_visitor_without_a_key_wakes_no_model(method: str) -> None:
    servers = Servers({})
    expected = {"/": 200, "/docs": 200, "/favicon.ico": 200, "/web/main.js": 200, "/web/x.js": 404, "/x": 404}
    expected |= {"/openapi.json": 503, "/.env": 404, "/docs/x": 404}
    with edge_before(servers, api_keys=["secret"]) as edge:
        for path, status in expected.items():
            is_wrong = method == "POST" and (status in (200, 503) or path.startswith("/web/"))
            assert edge.http.request(method, path).status_code == (405 if is_wrong else status), path
        assert "text/html" in edge.http.get("/").headers["content-type"]
        assert not servers.woken.is_set()


def heard(servers: dict[str, Running]) -> dict[str, int]:
    """How often the page of each server was opened."""
    return {
        name: int(server.metric("rhapsode_http_responses_total", route="/", method="GET"))
        for name, server in servers.items()
    }


def wait_for(servers: dict[str, Running], expected: dict[str, int]) -> None:
    deadline_s = time.monotonic() + 10
    while heard(servers) != expected:
        assert time.monotonic() < deadline_s, heard(servers)
        time.sleep(0.05)


def test_all_models_hear_that_the_page_is_open_also_those_that_are_loaded_later(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    with (
        in_thread("dummy", tmp_path / "a", limits=LIMITS) as one,
        in_thread("dummy", tmp_path / "b", limits=LIMITS) as two,
    ):
        servers, second = {"a": one, "b": two}, Servers({})
        with edge_before(Servers({"a": one.url}), ("dummy", "other"), {"other": second}) as edge:
            edge.http.get("/docs")
            assert edge.http.get("/").status_code == 200
            wait_for(servers, {"a": 1, "b": 0})
            assert "/v1/audio/speech" in edge.http.get("/openapi.json").json()["paths"]
            second.urls["b"] = two.url
            wait_for(servers, {"a": 1, "b": 1})
