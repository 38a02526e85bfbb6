"""The package stays small enough to read: limits on files and functions."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median

import rhapsode

PACKAGE = Path(rhapsode.__path__[0])
FILES = sorted(PACKAGE.rglob("*.py"))
MEDIAN_FILE, LONGEST_FILE, LONGEST_FUNCTION = 100, 300, 60


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def functions() -> Iterator[tuple[str, int]]:
    """Names and lengths; nested functions count as part of the outer one, and again by themselves."""
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_half_of_the_files_are_short() -> None:
    assert 0 < median(lines_of(path) for path in FILES if path.name != "__init__.py") <= MEDIAN_FILE


def test_no_file_is_too_long() -> None:
    assert not {str(path.relative_to(PACKAGE)): n for path in FILES if (n := lines_of(path)) > LONGEST_FILE}


def test_no_function_is_too_long() -> None:
    found = dict(functions())
    assert len(found) > len(FILES)
    assert not {name: n for name, n in found.items() if n > LONGEST_FUNCTION}


def test_every_class_has_a_name_of_its_own() -> None:
    where: dict[str, list[str]] = {}
    for path in FILES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(path.name)
    assert not {name: files for name, files in where.items() if len(files) > 1}
