"""The contract suite runs over every registered family."""

import importlib
import os

import pytest

from contract.subject import LONG, Subject
from rhapsode.engine import Engine
from rhapsode.models.registry import families, missing


def subjects_of(name: str) -> tuple[Subject, ...]:
    return importlib.import_module(f"contract.families.{name.replace('-', '_')}").SUBJECTS


ALWAYS = ("dummy",)
"""Families that the short run asks everything: the dummy's chains, of which one has three stages on the device."""
SHORT = (
    "test_batch_neighbours_change_nothing",
    "test_random_joins_leaves_and_aborts_leave_no_trace",
    "test_slot_reuse_leaks_nothing",
    "test_text_appended_word_by_word_sounds_like_the_whole",
)
"""What it asks of every other family. Listeners, failures, admission and frames are the engine's, whatever it runs."""


ASKED = tuple(filter(None, os.environ.get("TEST_FAMILIES", "").split(",")))
"""Only these families, if any are named."""


def chosen(metafunc: pytest.Metafunc, family: str) -> tuple[Subject, ...]:
    """The variants of a family that a test runs over: in the short run one, and few rules; in the long run and on a GPU
    all."""
    subjects = subjects_of(family)
    if LONG or family == "dummy":
        return subjects
    return subjects[:1] if family in ALWAYS or metafunc.function.__name__ in SHORT else ()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "subject" in metafunc.fixturenames:
        found, _ = families()
        names = [name for name, spec in found.items() if not missing(spec) and name in (ASKED or found)]
        kinds = getattr(metafunc.cls, "kinds", None) or {"frame", "generator"}
        names = [n for n in names if kinds & {stage.kind for stage in found[n].pipeline}]
        subjects = [subject for n in names for subject in chosen(metafunc, n)]
        ids = [f"{s.name}-{s.variant}" if s.variant else s.name for s in subjects]
        metafunc.parametrize("subject", subjects, ids=ids, scope="module")


@pytest.fixture(scope="module")
def engine(subject: Subject):
    """One engine for the tests that can share it; each leaves it empty."""
    engine: Engine = subject.engine()
    yield engine
    engine.stop()
