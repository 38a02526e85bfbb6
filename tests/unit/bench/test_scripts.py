"""The scripts in `benchmarks/` import only what the sources have: few of them can run here."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def imported(script: Path) -> list[tuple[str, str]]:
    """The names that a script imports from our own modules."""
    nodes = [node for node in ast.walk(tree(script)) if isinstance(node, ast.ImportFrom)]
    ours = [(node.module or "", alias.name) for node in nodes for alias in node.names]
    return [(module, name) for module, name in ours if module.split(".")[0] in ("rhapsode", "benchmarks")]


def file_of(module: str) -> Path | None:
    base = ROOT / "src" if module.startswith("rhapsode") else ROOT
    path = base.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def names(file: Path) -> set[str]:
    """What a module defines or imports, however deep."""
    found: set[str] = set()
    for node in ast.walk(tree(file)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                found |= {alias.asname or alias.name for alias in aliases}
    return found


def is_there(module: str, name: str) -> bool:
    file = file_of(module)
    is_name = file is not None and (name in names(file) or "__getattr__" in names(file))
    return is_name or file_of(f"{module}.{name}") is not None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_what_a_script_imports_is_there(script: Path) -> None:
    missing = [f"{module}.{name}" for module, name in imported(script) if not is_there(module, name)]
    assert not missing


def test_a_name_that_is_gone_is_noticed() -> None:
    assert is_there("rhapsode.serve.process.packing", "packed")
    assert is_there("rhapsode.nn.kernels.gpu", "linear")
    assert not is_there("rhapsode.serve.process.link", "_packed")
    assert not is_there("rhapsode.serve.no_such_module", "packed")
