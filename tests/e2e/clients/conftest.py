"""A server that all clients of other projects talk to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import rhapsode.engine.alignment as alignment_module
from e2e.serve.running import Running, in_thread
from spelling.family import SPELLING
from spelling.hearing import ToneModel

LIMITS = {"max_concurrency": 8, "max_positions": 1024, "max_text_chars": 2000}


@pytest.fixture(scope="session")
def audit(tmp_path_factory) -> Path:
    """The file with a line about every request."""
    return tmp_path_factory.mktemp("audit") / "audit.jsonl"


@pytest.fixture(scope="session")
def server(tmp_path_factory, audit: Path) -> Iterator[Running]:
    """The dummy, which speaks 80 ms a letter, with a Wyoming port."""
    settings = {"wyoming": 0, "voice_aliases": {"Rachel": "high"}, "audit": str(audit)}
    with in_thread("dummy", tmp_path_factory.mktemp("clients"), limits=LIMITS, server=settings) as started:
        yield started


@pytest.fixture(scope="module")
def spelling(tmp_path_factory) -> Iterator[Running]:
    """A family that spells, and an aligner that knows its tones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment_module, "load_acoustic", lambda *_: ToneModel())
        with in_thread(SPELLING, tmp_path_factory.mktemp("spelling"), limits={"max_concurrency": 2}) as server:
            yield server
