"""Reads one header of a request."""

from __future__ import annotations

from starlette.types import Scope


def header(scope: Scope, name: bytes) -> str:
    """Returns the value of the first header of this name, or an empty text. `name` is in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return ""
