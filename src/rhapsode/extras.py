"""Which command installs an extra of this package, from where the user is."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def how_to_install(extra: str, root: Path = _ROOT) -> str:
    """Returns the command: for the checkout that the package is used from, or for an installed package."""
    if not (root / "pyproject.toml").is_file():
        return f'pip install "rhapsode[{extra}]"'
    where = "." if root == Path.cwd() else root
    return f'pip install -e "{where}[{extra}]"'
