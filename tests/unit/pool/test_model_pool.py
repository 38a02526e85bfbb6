"""Which models of a pool are loaded, with stand-ins for their processes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rhapsode.config.pool import PoolConfig, pooled
from rhapsode.errors import CheckpointError, NoMemory, Unavailable
from rhapsode.pool.model_pool import ModelPool
from unit.pool.front import MIB, StandIn, lazy, stand_in


def with_pool(
    config: PoolConfig, use: Callable[[ModelPool], Coroutine[Any, Any, None]], fetch: Callable[[str], int] | None = None
) -> None:
    async def run() -> None:
        pool = ModelPool(config, fetch or (lambda model: StandIn.sizes.get(model, 1) * MIB), free_bytes=lambda: None)
        try:
            async with asyncio.timeout(5):
                await use(pool)
        finally:
            await pool.stop()

    asyncio.run(run())


def process_of(pool: ModelPool, name: str) -> Any:
    return pool.members[name].server


def loaded(pool: ModelPool) -> list[str]:
    return [name for name, member in pool.members.items() if member.report is not None]


class OneFits(StandIn):
    """A GPU with room for one model."""

    there: int = 0

    async def ready(self) -> None:
        if OneFits.there:
            raise NoMemory("there is not enough memory for the model.")
        OneFits.there += 1
        await super().ready()

    async def end(self, *, at_once: bool = False) -> None:
        OneFits.there -= self.state is not None
        await super().end(at_once=at_once)


@pytest.fixture
def one_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    OneFits.there = 0
    stand_in(monkeypatch, OneFits)


@pytest.mark.usefixtures("one_fits")
def test_a_model_that_does_not_fit_waits_until_one_in_use_is_free() -> None:
    async def use(pool: ModelPool) -> None:
        await pool.load("a")
        process_of(pool, "a").says(in_use=1)
        waiting = asyncio.create_task(pool.load("b"))
        for _ in range(5):
            await asyncio.sleep(0.01)
            process_of(pool, "a").says(in_use=1)
        assert not waiting.done()
        process_of(pool, "a").says(in_use=0)
        await waiting
        assert loaded(pool) == ["b"]

    with_pool(lazy("a", "b"), use)


@pytest.mark.usefixtures("one_fits")
def test_the_wait_of_a_model_that_does_not_fit_is_bounded() -> None:
    async def use(pool: ModelPool) -> None:
        await pool.load("a")
        process_of(pool, "a").says(in_use=1)
        with pytest.raises(Unavailable, match="no room for 'b' while others are in use: a"):
            await pool.load("b")

    with_pool(lazy("a", "b", cold_start_s=0.05), use)


@pytest.mark.usefixtures("one_fits")
def test_a_model_that_pinned_ones_leave_no_room_fails_at_once() -> None:
    async def use(pool: ModelPool) -> None:
        await pool.load("a")
        with pytest.raises(NoMemory):
            await pool.load("b")

    with_pool(pooled({"models": {"a": {"pinned": True}, "b": None}}), use)


def test_others_are_loaded_and_unloaded_while_one_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    monkeypatch.setattr(StandIn, "sizes", {"kept": 1, "busy": 5, "large": 9, "small": 1})

    async def use(pool: ModelPool) -> None:
        await pool.load("busy")
        process_of(pool, "busy").says(in_use=1)
        waiting = asyncio.create_task(pool.load("large"))
        await asyncio.sleep(0.02)
        pool.watch()
        await pool.load("small")
        assert {"busy", "small"} <= set(loaded(pool))
        while "small" in loaded(pool) or "kept" not in loaded(pool):
            await asyncio.sleep(0.02)
        assert pool.members["small"].unloads == {"idle": 1, "room": 0}
        assert not waiting.done()
        process_of(pool, "busy").says(in_use=0)
        await waiting
        assert loaded(pool) == ["kept", "large"]

    models = {
        "kept": {"pinned": True},
        "busy": None,
        "large": None,
        "small": {"deployment": {"server": {"idle_unload_s": 0}}},
    }
    with_pool(pooled({"models": models, "memory_bytes": 10 * MIB}), use)


def test_a_model_that_is_asked_for_while_it_leaves_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    goes = asyncio.Event()

    class Slow(StandIn):
        async def end(self, *, at_once: bool = False) -> None:
            await goes.wait()
            await super().end(at_once=at_once)

    stand_in(monkeypatch, Slow)

    async def use(pool: ModelPool) -> None:
        await pool.load("a")
        first = process_of(pool, "a")
        pool.watch()
        while not pool.members["a"].is_leaving:
            await asyncio.sleep(0.01)
        again = asyncio.create_task(pool.load("a"))
        await asyncio.sleep(0.02)
        assert process_of(pool, "a") is first, "two processes of one model"
        goes.set()
        await again
        assert process_of(pool, "a") is not first
        assert pool.members["a"].loads == 2

    with_pool(lazy("a", server={"idle_unload_s": 0}), use)


def test_a_checkpoint_is_fetched_by_the_first_load_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    fetched: list[str] = []

    async def use(pool: ModelPool) -> None:
        assert fetched == []
        for name in ("a", "a", "b"):
            await pool.load(name)
        assert fetched == ["dummy", "dummy"]
        await pool._unload(pool.members["a"], "idle")
        await pool.load("a")
        assert fetched == ["dummy", "dummy"]

    with_pool(lazy("a", "b"), use, lambda model: fetched.append(model) or 1)


def test_a_checkpoint_that_cannot_be_fetched_is_the_error_of_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)

    def fetch(model: str) -> int:
        raise CheckpointError("the hub cannot be reached.")

    async def use(pool: ModelPool) -> None:
        with pytest.raises(CheckpointError, match="cannot be reached"):
            await pool.load("a")

    with_pool(lazy("a"), use, fetch)


def test_only_the_pool_unloads_an_idle_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process would do it, too, and has no say: a pinned model stays."""
    stand_in(monkeypatch)

    async def use(pool: ModelPool) -> None:
        await pool.load("pinned")
        assert process_of(pool, "pinned").deployment.server.idle_unload_s is None
        assert pool.members["other"].idle_unload_s == 5

    with_pool(pooled({"models": {"pinned": {"pinned": True}, "other": None}, "server": {"idle_unload_s": 5}}), use)
