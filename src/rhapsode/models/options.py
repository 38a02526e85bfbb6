"""A family's own options: declared as a frozen dataclass, checked strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from rhapsode.errors import InvalidRequest, UnknownOption, did_you_mean
from rhapsode.models.base import ModelSpec


def parse_options(spec: ModelSpec, given: Mapping[str, Any]) -> Any:
    """An instance of `spec.options`: the family's defaults with what the user set."""
    types = get_type_hints(spec.options)
    parsed = {}
    for name, value in given.items():
        if name not in types:
            raise UnknownOption(f"{spec.name} has no option '{name}': {did_you_mean(name, types)}", param=name)
        try:
            parsed[name] = TypeAdapter(types[name]).validate_python(value, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]["msg"].lower()
            raise InvalidRequest(f"option '{name}': {problem}, got {value!r}.", param=name) from None
    try:
        return spec.options(**parsed)
    except ValueError as error:  # what an options class says about its own values
        raise InvalidRequest(f"{spec.name}: {error}.") from None
