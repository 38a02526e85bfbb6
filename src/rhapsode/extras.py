"""Which command installs an extra of this package, from where the user is."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def how_to_install(extra: str, root: Path = _ROOT) -> str:
    """Returns the command: for the checkout that the package is used from, or for an installed package."""
    if not (root / "pyproject.toml").is_file():
        return how_to_add(f'"rhapsode[{extra}]"')
    where = "." if root == Path.cwd() else root
    return how_to_add(f'-e "{where}[{extra}]"')


def how_to_add(what: str) -> str:
    """Returns the command that installs packages into the environment of this program: `pip` alone where that is the
    one found first, as in an activated environment."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return f"pip install {what}"
    program = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is None and shutil.which("uv") is not None:
        return f"uv pip install --python {program} {what}"  # an environment that uv has made has no pip
    return f"{program} -m pip install {what}"
