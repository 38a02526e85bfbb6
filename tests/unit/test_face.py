"""Who stands above the engine knows it by its public names alone, and asks no family by attribute."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rhapsode
from rhapsode import engine

HOME = Path(rhapsode.__file__).parent
SERVERS = ("serve", "cli", "pool", "edge", "cluster")
FILES = sorted([*(file for name in SERVERS for file in (HOME / name).rglob("*.py")), HOME / "tts.py"])
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


LOOK_INSIDE = {"engine", "bench", "testing", "kernel_cache"}
"""Packages that may import any part of the engine: those that measure or test it, or go through its launches."""
OUTSIDE = sorted(file for file in HOME.rglob("*.py") if file.relative_to(HOME).parts[0] not in LOOK_INSIDE)
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def imports_of_the_engine(tree: ast.Module) -> Iterator[str]:
    """Yields each name that is imported from the engine, and each of its modules, also one that a text names."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="rhapsode.engine", names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module="rhapsode", names=names):
                yield from (f"rhapsode.{name.name}" for name in names if name.name == "engine")
            case ast.ImportFrom(module=str(module)) if module.startswith("rhapsode.engine."):
                yield module
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.startswith("rhapsode.engine"))
            case ast.Constant(value=str(text)) if re.fullmatch(r"rhapsode\.engine\.[\w.:]+", text):
                yield text


@pytest.mark.parametrize(
    "code",
    [
        "from rhapsode.engine import loop",
        "from rhapsode.engine.loop import Loop",
        "if TYPE_CHECKING:\n    from rhapsode.engine.loop import Loop",
        "def late():\n    import rhapsode.engine.loop as loop",
        "from rhapsode import engine",
        "import_module('rhapsode.engine.loop')",
    ],
)
def test_every_way_to_import_what_is_inside_is_found(code: str) -> None:
    assert not set(imports_of_the_engine(ast.parse(code))) <= set(engine.__all__)


def test_others_import_the_public_names_of_the_engine_alone() -> None:
    texts = {file: text for file in OUTSIDE if "engine" in (text := file.read_text("utf-8"))}
    found = {str(file.relative_to(HOME)): set(imports_of_the_engine(ast.parse(text))) for file, text in texts.items()}
    assert {"Engine", "Speech", "Load"} <= set().union(*found.values())
    assert not {file: names for file, names in found.items() if not names <= set(engine.__all__)}


@pytest.mark.parametrize("name", engine.__all__)
def test_every_public_name_of_the_engine_is_there(name: str) -> None:
    assert getattr(engine, name).__name__ == name


def test_the_page_says_what_each_public_name_of_the_engine_is() -> None:
    section = PAGE.read_text("utf-8").partition("## The names of the engine")[2]
    assert sorted(re.findall(r"^\| `(\w+)` \| \w", section, re.MULTILINE)) == sorted(engine.__all__)


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
