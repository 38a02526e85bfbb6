"""Which clients `make test-clients` has installed, so that their tests cannot be skipped by mistake."""

import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest

ENVIRONMENT = Path(__file__).parents[3] / ".venv-clients"


def must_run(client: str) -> bool:
    return client in os.environ.get("TEST_CLIENTS", "").split()


def module_of(client: str, module: str) -> ModuleType:
    """A client's module; a skipped test where it is not installed, unless it must run."""
    if must_run(client):
        return importlib.import_module(module)
    return pytest.importorskip(module, reason=f"{client} is not installed: make test-clients")


def node_modules() -> Path:
    """The folder of the Node clients; a skipped test where it is missing, unless they must run."""
    folder = ENVIRONMENT / "node" / "node_modules"
    if not folder.is_dir() and not must_run("node"):
        pytest.skip("the Node clients are not installed: make test-clients")
    assert folder.is_dir()
    return folder


def environment_of(client: str) -> Path:
    """The Python of a client with an environment of its own; a skipped test where it is missing, unless it must run."""
    python = ENVIRONMENT / client / "bin" / "python"
    if not python.exists() and not must_run(client):
        pytest.skip(f"{client} is not installed: make test-clients")
    assert python.exists()
    return python
