"""Names that a spec gives as text, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any


def import_name(where: str) -> Any:
    """Imports a module, and returns the object that `package.module:name` names."""
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)
