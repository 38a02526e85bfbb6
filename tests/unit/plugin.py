"""Families as others would ship them: a module and a distribution with an entry point, in a folder."""

from pathlib import Path

GOOD = """
from dataclasses import replace
from rhapsode.models.base import Layout
from rhapsode.models.dummy.spec import SPEC as DUMMY

LAYOUT = Layout(where={"architectures": ("{name}-net",)})
SPEC = replace(DUMMY, name="{name}", summary="made for a test", layouts=(LAYOUT,), hidden=False)
"""


def add_plugin(folder: Path, name: str, code: str, value: str | None = None) -> Path:
    """Put a family into `folder`, which then belongs on the import path."""
    module = f"plugin_{name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(code.replace("{name}", name), "utf-8")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[rhapsode.models]\n{name} = {value or f'{module}:SPEC'}\n", "utf-8")
    return folder
