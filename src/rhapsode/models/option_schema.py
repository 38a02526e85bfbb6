"""Describes the options of a family and the sampling parameters: types, defaults, ranges, and what they do."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection
from itertools import pairwise
from typing import Annotated, Any, cast

from pydantic import TypeAdapter

from rhapsode.models.spec import ModelSpec
from rhapsode.sampling_table import PARAMETERS


def options_schema(spec: ModelSpec) -> dict[str, Any]:
    """Returns a family's options as JSON schema, with their docstrings as descriptions."""
    schema: dict[str, Any] = {"properties": {}} | TypeAdapter(spec.options).json_schema()
    for name, words in _attribute_docstrings(spec.options).items():
        schema["properties"].get(name, {})["description"] = words
    return schema


def sampling_schema(names: Collection[str]) -> dict[str, Any]:
    """Returns these sampling parameters as JSON schema, as those of options are."""
    types: dict[str, Any] = {one.name: Annotated[one.kind, one.range] for one in PARAMETERS if one.name in names}
    about = {one.name: one.description for one in PARAMETERS}
    return {name: TypeAdapter(kind).json_schema() | {"description": about[name]} for name, kind in types.items()}


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
