"""Checks names and values against a dataclass that a family declares, such as the settings of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from rhapsode.errors import ConfigError, RhapsodeError, did_you_mean
from rhapsode.models.spec import ModelSpec


def parse_settings(spec: ModelSpec, given: Mapping[str, Any]) -> Any:
    """Returns an instance of `spec.settings`: the family's defaults with what the deployment sets under `options`."""

    def hint(name: str) -> str:
        return did_you_mean(name, _types(spec.settings))

    return parse(f"a deployment of {spec.name}", spec.settings, given, hint, ConfigError, ConfigError)


@lru_cache
def _types(into: type) -> dict[str, Any]:
    return get_type_hints(into)


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def parse(
    owner: str,
    into: type,
    given: Mapping[str, Any],
    hint: Callable[[str], str],
    unknown: type[RhapsodeError],
    invalid: type[RhapsodeError],
) -> Any:
    types = _types(into)
    parsed = {}
    for name, value in given.items():
        if name not in types:
            raise unknown(f"{owner} has no option '{name}': {hint(str(name))}", param=str(name))
        try:
            parsed[name] = _adapter(types[name]).validate_python(value, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]["msg"].lower()
            raise invalid(f"option '{name}': {problem}, got {value!r}.", param=name) from None
    try:
        return into(**parsed)
    except ValueError as error:  # raised by the dataclass about its own values
        about = str(error).partition(" ")[0]
        raise invalid(f"{owner}: {error}.", param=about if about in types else None) from None
