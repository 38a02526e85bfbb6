"""Runs the rules over the families that `--family` names; without it, over all that declare subjects."""

from functools import cache

import pytest

from rhapsode.errors import RhapsodeError
from rhapsode.testing.fixtures import engine as engine
from rhapsode.testing.fixtures import give_subjects
from rhapsode.testing.found import declared, subjects_of
from rhapsode.testing.subject import Subject


@cache
def asked(config: pytest.Config) -> list[Subject]:
    names = dict.fromkeys(config.getoption("--family") or sorted(declared()))
    if not names:
        raise pytest.UsageError("which family? Name one: --family NAME. None that is installed declares subjects.")
    try:
        return [subject for name in names for subject in subjects_of(name)]
    except RhapsodeError as error:
        raise pytest.UsageError(error.message) from None


def pytest_collectstart(collector: pytest.Collector) -> None:
    asked(collector.config)  # an error here is one line; while tests are generated it would be a traceback for each


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "subject" in metafunc.fixturenames:
        give_subjects(metafunc, asked(metafunc.config))
