"""What must stay light: the command line's help, and its client."""

import re
from pathlib import Path

import pytest

from rhapsode.extras import how_to_install
from unit.command import python

HEAVY = ("fastapi", "starlette", "uvicorn", "prometheus_client", "torch")


@pytest.mark.parametrize("module", ["rhapsode.cli.main", "rhapsode.cli.remote", "rhapsode.cli.serve"])
def test_nothing_of_the_server_is_imported(tmp_path: Path, module: str) -> None:
    printed = python(f"import sys, {module}; print(*(m for m in {HEAVY!r} if m in sys.modules))", tmp_path)
    assert printed.strip() == ""


def test_a_missing_server_package_says_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv[1:] = ['serve', 'dummy']\n"
        "import rhapsode.cli.main as m\n"
        "try: m.app(sys.argv[1:], standalone_mode=False)\n"
        "except Exception as error: print(error)"
    )
    assert re.search(r'the server needs fastapi: pip install .*\[serve\]"', python(code, tmp_path))


def test_the_command_that_installs_an_extra_is_one_for_the_place(tmp_path: Path, monkeypatch) -> None:
    assert how_to_install("serve", tmp_path) == 'pip install "rhapsode[serve]"'
    (tmp_path / "pyproject.toml").touch()
    assert how_to_install("serve", tmp_path) == f'pip install -e "{tmp_path}[serve]"'
    monkeypatch.chdir(tmp_path)
    assert how_to_install("serve", tmp_path) == 'pip install -e ".[serve]"'
