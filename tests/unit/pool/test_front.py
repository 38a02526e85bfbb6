"""The process in front of several models: it has none itself, and must not behave as if it loaded one."""

import gc
from collections.abc import Iterator

import pytest

from rhapsode.config.pool import pooled
from rhapsode.pool.run import too_little_memory
from unit.pool.front import front, lazy


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


@pytest.mark.parametrize(
    ("given", "is_told"), [({}, False), ({"memory_bytes": 999}, True), ({"memory_bytes": 1000}, False)]
)
def test_pinned_models_that_need_more_than_there_is_are_told_at_the_start(given: dict, is_told: bool) -> None:
    config = pooled({"models": {"a": {"pinned": True}, "b": {"pinned": True}, "c": None}, **given})
    told = too_little_memory(config, {"a": 600, "b": 400, "c": 5000})
    assert ("pinned models alone" in told) == is_told
