"""What must stay light: the command line's help, and its client."""

import importlib.util
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from rhapsode.extras import how_to_add, how_to_install
from unit.command import python

HEAVY = ("fastapi", "starlette", "uvicorn", "prometheus_client", "torch")


@pytest.mark.parametrize("module", ["rhapsode.cli.main", "rhapsode.cli.remote", "rhapsode.cli.serve"])
def test_nothing_of_the_server_is_imported(tmp_path: Path, module: str) -> None:
    printed = python(f"import sys, {module}; print(*(m for m in {HEAVY!r} if m in sys.modules))", tmp_path)
    assert printed.strip() == ""


@pytest.mark.parametrize("module", ["rhapsode.pool.run", "rhapsode.serve.server"])
def test_a_process_in_front_of_engines_imports_none(tmp_path: Path, module: str) -> None:
    engine = ("rhapsode.engine.engine", "rhapsode.engine.pipeline", "torch")
    printed = python(f"import sys, {module}; print(*(m for m in {engine!r} if m in sys.modules))", tmp_path)
    assert printed.strip() == ""


def test_a_missing_server_package_says_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv[1:] = ['serve', 'dummy']\n"
        "import rhapsode.cli.main as m\n"
        "try: m.app(sys.argv[1:], standalone_mode=False)\n"
        "except Exception as error: print(error)"
    )
    assert re.search(r'the server needs fastapi: .*pip install .*\[serve\]"', python(code, tmp_path))


def test_the_command_that_installs_an_extra_is_one_for_the_place(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: str(Path(sys.executable).parent / name))
    assert how_to_install("serve", tmp_path) == 'pip install "rhapsode[serve]"'
    (tmp_path / "pyproject.toml").touch()
    assert how_to_install("serve", tmp_path) == f'pip install -e "{tmp_path}[serve]"'
    monkeypatch.chdir(tmp_path)
    assert how_to_install("serve", tmp_path) == 'pip install -e ".[serve]"'


@pytest.mark.parametrize(
    ("found", "has_pip", "expected"),
    [
        (None, True, "{python} -m pip install av"),
        ("/usr/bin", True, "{python} -m pip install av"),
        ("/usr/bin", False, "uv pip install --python {python} av"),
        (None, False, "{python} -m pip install av"),
    ],
)
def test_the_command_installs_where_this_program_finds_it(
    found: str | None, has_pip: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment that is not activated is not where `pip` installs; one that uv has made has no pip."""
    monkeypatch.setattr(shutil, "which", lambda name: found and f"{found}/{name}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if has_pip else None)
    assert how_to_add("av") == expected.format(python=shlex.quote(sys.executable))
