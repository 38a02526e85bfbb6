"""The process in front of several models: it has none itself, and must not behave as if it loaded one."""

import gc
import signal
import time
from collections.abc import Iterator

import pytest

from rhapsode.config.pool import pooled
from rhapsode.pool.member import Member
from rhapsode.pool.server import too_little_memory
from unit.pool.front import StandIn, front, lazy, stand_in


@pytest.fixture
def without_collections() -> Iterator[None]:
    """As `rhapsode serve` begins: without garbage collection while it imports."""
    thresholds = gc.get_threshold()
    gc.disable()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("without_collections")
def test_garbage_is_collected_once_the_server_has_started() -> None:
    with front(lazy("one")):
        assert gc.isenabled()
        assert gc.get_threshold()[0] > 10_000


def test_the_server_says_that_it_ends_and_ends_promptly(capsys: pytest.CaptureFixture[str]) -> None:
    with front(lazy("one")) as (server, _):
        began_s = time.monotonic()
        server.handle_exit(signal.SIGINT, None)
        assert capsys.readouterr().err == "rhapsode: stopping.\n"
    assert time.monotonic() - began_s < 2


@pytest.mark.parametrize(("signals", "at_once"), [(1, False), (2, True)])
def test_a_second_signal_ends_what_still_runs(monkeypatch: pytest.MonkeyPatch, signals: int, at_once: bool) -> None:
    ended: list[bool] = []

    class Busy(StandIn):
        async def end(self, *, at_once: bool = False) -> None:
            ended.append(at_once)
            await super().end()

    stand_in(monkeypatch, Busy)
    with front(pooled({"models": {"dummy": None}, "device": "cpu"})) as (server, _):
        while server._pool.members["dummy"].report is None:
            time.sleep(0.02)
        server._pool_edge._sockets = 1  # somebody listens
        for _ in range(signals):
            server.handle_exit(signal.SIGTERM, None)
        if not at_once:
            server._pool_edge._sockets = 0
    assert ended == [at_once]


@pytest.mark.parametrize(
    ("given", "is_told"), [({}, False), ({"memory_bytes": 999}, True), ({"memory_bytes": 1000}, False)]
)
def test_pinned_models_that_need_more_than_there_is_are_told_at_the_start(given: dict, is_told: bool) -> None:
    config = pooled({"models": {"a": {"pinned": True}, "b": {"pinned": True}, "c": None}, **given})
    sizes = {"a": 600, "b": 400, "c": 5000}
    members = {name: Member(name, config.deployment(name), name != "c", size) for name, size in sizes.items()}
    told = too_little_memory(config, members)
    assert ("pinned models alone" in told) == is_told


def test_voices_of_models_that_are_not_loaded_are_listed() -> None:
    models = {"rhapsode-nano": {"load": "request"}, "dummy": {"load": "request"}}
    settings = {"device": "cpu", "server": {"api_keys": ["secret"], "public_lists": True}}
    with front(pooled({"models": models, **settings})) as (_, running):
        keyless = running.http.get("/v1/audio/voices").json()["data"]
        whole = running.http.get("/v1/audio/voices", headers={"Authorization": "Bearer secret"}).json()["data"]
        assert [voice["id"] for voice in keyless] == [voice["id"] for voice in whole]
        assert {"low", "high"} < {voice["id"] for voice in whole}
        assert len(whole) > 4
        assert all(voice.keys() == {"id", "name", "kind"} for voice in keyless)
        one = running.http.get("/v1/audio/voices?model=dummy", headers={"Authorization": "Bearer secret"})
        assert [voice["id"] for voice in one.json()["data"]] == ["low", "high"]
