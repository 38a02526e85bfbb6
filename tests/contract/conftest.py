"""The contract suite runs over every registered family."""

import importlib
import os

import pytest

from contract.subject import DEVICE, Subject
from rhapsode.engine import Engine
from rhapsode.models.registry import families, missing


def subjects_of(name: str) -> tuple[Subject, ...]:
    return importlib.import_module(f"contract.families.{name.replace('-', '_')}").SUBJECTS


ALWAYS = ("dummy", "qwen3-tts", "cosyvoice3")
"""Families whose frames the short run looks at: chains of the dummy, a talker with a codec, one with a flow between."""


def chosen(metafunc: pytest.Metafunc, family: str) -> tuple[Subject, ...]:
    """The variants of a family that a test runs over: on a CPU one, and the long rules for few families; in the long
    run and on a GPU all."""
    subjects = subjects_of(family)
    if DEVICE != "cpu" or "TEST_EXAMPLES" in os.environ or family == "dummy":
        return subjects
    is_long = metafunc.module.__name__.endswith(("test_frames", "test_text"))
    return () if is_long and family not in ALWAYS else subjects[:1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "subject" in metafunc.fixturenames:
        found, _ = families()
        names = [name for name, spec in found.items() if not missing(spec)]
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
