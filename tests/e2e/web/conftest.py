"""One browser and one server of each kind for all tests of the page."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.serve.running import Running, in_thread, running
from e2e.web.browsing import Visit, chromium
from tiny import moss_tts_nano
from tiny.qwen3_tts import Tiny, write

ROOM = {"max_concurrency": 8, "max_positions": 1024}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Last of all: as long as the browser's driver is there, its event loop runs in this thread."""
    items.sort(key=lambda item: Path(__file__).parent in item.path.parents)


@pytest.fixture(scope="session")
def browser() -> Iterator:
    with chromium() as started:
        yield started


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Visit]]:
    """Opens the page of a server; whatever the browser complained about fails the test."""
    contexts, visits = [], []

    def open_page(server: Running, view: str | None = "speak", tapped: bool = True, **settings) -> Visit:
        contexts.append(browser.new_context(bypass_csp=tapped, **settings))
        visits.append(Visit(contexts[-1].new_page(), server.url))
        if tapped:
            visits[-1].tap()
        return visits[-1].open(view) if view else visits[-1]

    yield open_page
    for context in contexts:
        context.close()
    assert [problem for visit in visits for problem in visit.problems] == []


@pytest.fixture(scope="session")
def dummy(browser, tmp_path_factory) -> Iterator[Running]:
    with running("dummy", tmp_path_factory.mktemp("page"), limits=ROOM) as server:
        yield server


@pytest.fixture(scope="session")
def hibari(browser, tmp_path_factory) -> Iterator[Running]:
    with running("hibari", tmp_path_factory.mktemp("page"), limits=ROOM) as server:
        yield server


@pytest.fixture(scope="session")
def cloning(browser, tmp_path_factory) -> Iterator[Running]:
    checkpoint = tmp_path_factory.mktemp("tiny-base")
    write(checkpoint, Tiny(kind="base", eos_gain=1.4))
    # In float64, so that what is said twice is the same to the bit.
    settings = {"limits": {"max_concurrency": 4, "max_positions": 512}, "dtype": "float64"}
    with in_thread(str(checkpoint), tmp_path_factory.mktemp("page"), **settings) as server:
        yield server


@pytest.fixture(scope="session")
def stereo(browser, tmp_path_factory) -> Iterator[Running]:
    checkpoint = tmp_path_factory.mktemp("tiny-stereo")
    moss_tts_nano.write(checkpoint, moss_tts_nano.Tiny(patch=1920))  # frames of 80 ms
    settings = {"limits": {"max_concurrency": 4, "max_positions": 512}, "dtype": "float64"}
    with in_thread(str(checkpoint), tmp_path_factory.mktemp("page"), **settings) as server:
        yield server


@pytest.fixture(scope="session")
def guarded(browser, tmp_path_factory) -> Iterator[Running]:
    keys = {"api_keys": ["sk-one"]}
    with in_thread("dummy", tmp_path_factory.mktemp("page"), limits=ROOM, server=keys) as server:
        yield server
