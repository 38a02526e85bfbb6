"""The process in front of several models: it has none itself, and must not behave as if it loaded one."""

import gc
from collections.abc import Iterator

import pytest

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
