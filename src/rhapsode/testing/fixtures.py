"""What the rules get: a subject each, and an engine of it. For the `conftest.py` beside them."""

from collections.abc import Iterator, Sequence

import pytest

from rhapsode.engine import Engine
from rhapsode.models.registry import families
from rhapsode.testing.subject import Subject

KINDS = frozenset({"frame", "burst", "generator"})


def give_subjects(metafunc: pytest.Metafunc, subjects: Sequence[Subject]) -> None:
    """Runs a rule over those subjects whose pipeline has a stage of the rule's `kinds`."""
    kinds = getattr(metafunc.cls, "kinds", KINDS)
    specs, _ = families()
    chosen = [s for s in subjects if kinds & {stage.kind for stage in (s.spec or specs[s.name]).pipeline}]
    ids = [f"{s.name}-{s.variant}" if s.variant else s.name for s in chosen]
    metafunc.parametrize("subject", chosen, ids=ids, scope="module")


@pytest.fixture(scope="module")
def engine(subject: Subject) -> Iterator[Engine]:
    """One engine for tests that can share it. Each of them leaves it without requests."""
    engine = subject.engine()
    yield engine
    engine.stop()
