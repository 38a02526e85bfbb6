"""Who stands above the engine knows it by its public names alone, and asks no family by attribute."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rhapsode

HOME = Path(rhapsode.__file__).parent
FILES = sorted([*(HOME / "serve").rglob("*.py"), *(HOME / "cli").rglob("*.py"), HOME / "tts.py"])
INSIDE = {"pipeline", "workers", "stages"}
"""Attributes of an engine that only the engine, the bench and tests may use. A spec has a `pipeline`, too."""


def attributes(file: Path) -> Iterator[ast.Attribute]:
    return (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Attribute))


def owner(node: ast.Attribute) -> str:
    """The last name before the dot."""
    return ast.unparse(node.value).rsplit(".", 1)[-1]


def reaches_inside(node: ast.Attribute) -> bool:
    return node.attr in INSIDE and owner(node) not in ("spec", "deployment")


def is_private(node: ast.Attribute) -> bool:
    of_the_engine = owner(node).removeprefix("_") in ("engine", "speech", "stage", "job")
    return of_the_engine and node.attr.startswith("_") and not node.attr.startswith("__")


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 30


@pytest.mark.parametrize(
    "code", ["engine.pipeline.x", "self._engine.workers", "host.engine.stages", "tts.engine._jobs"]
)
def test_the_rules_find_what_they_are_for(code: str) -> None:
    found = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)]
    assert any(reaches_inside(node) or is_private(node) for node in found)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(HOME)))
def test_nobody_above_reaches_into_the_engine(file: Path) -> None:
    found = [ast.unparse(node) for node in attributes(file) if reaches_inside(node) or is_private(node)]
    assert found == []


OF_PYTHON = {"callbacks.py", "connection.py", "memory.py"}
"""Files that ask objects of Python itself: callbacks of the event loop, connections of uvicorn, the C library."""


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if "serve" in file.parts and file.name not in OF_PYTHON],
    ids=lambda file: file.name,
)
def test_the_server_asks_nothing_by_attribute_name(file: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call)]
    names = {node.func.id for node in calls if isinstance(node.func, ast.Name)}
    assert not names & {"getattr", "hasattr"}
