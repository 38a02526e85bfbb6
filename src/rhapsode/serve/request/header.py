"""Reads one header of a request."""

from __future__ import annotations

from starlette.types import Scope


def header(scope: Scope, name: bytes) -> str:
    """Returns the first header of this name, in lower case, or an empty text."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
