"""The contract suite runs over every family of this repository, those that `--family` names, or a few rules of each."""

import importlib
from pathlib import Path

import pytest

from rhapsode.models.registry import families, missing
from rhapsode.testing.fixtures import engine as engine
from rhapsode.testing.fixtures import give_subjects
from rhapsode.testing.subject import LONG, Subject

FILES = {path.stem for path in (Path(__file__).parent / "families").glob("[a-z]*.py")}
"""One for each family; further families that are installed are no concern of this repository."""
ALWAYS = ("dummy",)
"""Families that the short run asks everything: the dummy's chains, of which one has three stages on the device."""
SHORT = (
    "test_batch_neighbours_change_nothing",
    "test_random_joins_leaves_and_aborts_leave_no_trace",
    "test_slot_reuse_leaks_nothing",
    "test_text_appended_word_by_word_sounds_like_the_whole",
)
"""What it asks of every other family. Listeners, failures, admission and frames are the engine's, whatever it runs."""


def subjects_of(name: str) -> tuple[Subject, ...]:
    return importlib.import_module(f"contract.families.{name.replace('-', '_')}").SUBJECTS


def chosen(metafunc: pytest.Metafunc, family: str) -> tuple[Subject, ...]:
    """The variants of a family that a test runs over: in the short run one, and few rules; in the long run and on a GPU
    all."""
    subjects = subjects_of(family)
    if LONG or family == "dummy":
        return subjects
    return subjects[:1] if family in ALWAYS or metafunc.function.__name__ in SHORT else ()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "subject" in metafunc.fixturenames:
        found = {name: spec for name, spec in families()[0].items() if name.replace("-", "_") in FILES}
        asked = metafunc.config.getoption("--family") or found
        names = [name for name, spec in found.items() if name in asked and not missing(spec)]
        give_subjects(metafunc, [subject for name in names for subject in chosen(metafunc, name)])
