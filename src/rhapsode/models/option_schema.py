"""Describes the options of a family: types, defaults, ranges, and their docstrings."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any, cast

from pydantic import TypeAdapter

from rhapsode.models.spec import ModelSpec


def options_schema(spec: ModelSpec) -> dict[str, Any]:
    """Returns a family's options as JSON schema, with their docstrings as descriptions."""
    schema: dict[str, Any] = {"properties": {}} | TypeAdapter(spec.options).json_schema()
    for name, words in _attribute_docstrings(spec.options).items():
        schema["properties"].get(name, {})["description"] = words
    return schema


def _attribute_docstrings(kind: type) -> dict[str, str]:
    """Returns the docstrings below the fields of a class, from its source, since Python does not keep them."""
    try:
        body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
    except (OSError, TypeError, SyntaxError):  # no source at hand
        return {}
    return {
        field.target.id: inspect.cleandoc(words.value.value)
        for field, words in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(words, ast.Expr)
        and isinstance(words.value, ast.Constant)
        and isinstance(words.value.value, str)
    }
