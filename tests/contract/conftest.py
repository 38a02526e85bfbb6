"""The contract suite runs over every registered family."""

import importlib
import os

import pytest

from contract.subject import DEVICE, Subject
from rhapsode.engine import Engine
from rhapsode.models.registry import families, missing


def subjects_of(name: str) -> tuple[Subject, ...]:
    return importlib.import_module(f"contract.families.{name.replace('-', '_')}").SUBJECTS


def most_variants(family: str) -> int | None:
    """How many variants of a family the suite runs over: on a CPU one, but for the long run."""
    is_short = DEVICE == "cpu" and "TEST_EXAMPLES" not in os.environ
    return 1 if is_short and family != "dummy" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "subject" in metafunc.fixturenames:
        found, _ = families()
        names = [name for name, spec in found.items() if not missing(spec)]
        kinds = getattr(metafunc.cls, "kinds", None) or {"frame", "generator"}
        names = [n for n in names if kinds & {stage.kind for stage in found[n].pipeline}]
        subjects = [subject for n in names for subject in subjects_of(n)[: most_variants(n)]]
        ids = [f"{s.name}-{s.variant}" if s.variant else s.name for s in subjects]
        metafunc.parametrize("subject", subjects, ids=ids, scope="module")


@pytest.fixture(scope="module")
def engine(subject: Subject):
    """One engine for the tests that can share it; each leaves it empty."""
    engine: Engine = subject.engine()
    yield engine
    engine.stop()
