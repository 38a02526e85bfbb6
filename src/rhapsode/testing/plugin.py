"""The pytest plugin: the option `--family`. Every pytest run beside this package loads it, so it imports next to
nothing."""

import pytest

pytest.register_assert_rewrite("rhapsode.testing.subject")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("rhapsode").addoption(
        "--family",
        action="append",
        default=[],
        metavar="NAME",
        help="a model family that the contract suite runs over; may be given several times",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA device; skipped without one")
