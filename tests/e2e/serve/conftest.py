"""Servers for the tests of a session, one of each kind."""

from collections.abc import Iterator

import pytest

from e2e.serve.running import Running, running
from tiny.dummy import write

ROOM = {"max_concurrency": 64, "max_queue": 128, "max_text_chars": 5000, "max_positions": 1024}


@pytest.fixture(scope="session")
def dummy(tmp_path_factory) -> Iterator[Running]:
    settings = {"limits": ROOM, "server": {"max_body_bytes": 2_000_000, "max_upload_bytes": 1_000_000}}
    with running("dummy", tmp_path_factory.mktemp("dummy"), **settings) as server:
        yield server


@pytest.fixture(scope="session")
def cloning_dummy(tmp_path_factory) -> Iterator[Running]:
    """The dummy with a checkpoint that clones: for uploads."""
    folder = tmp_path_factory.mktemp("cloning-dummy")
    settings = {"limits": ROOM, "server": {"max_body_bytes": 2_000_000, "max_upload_bytes": 1_000_000}}
    with running(write(folder / "checkpoint"), folder, **settings) as server:
        yield server


@pytest.fixture(scope="session")
def hibari(tmp_path_factory) -> Iterator[Running]:
    with running("hibari", tmp_path_factory.mktemp("hibari")) as server:
        yield server
