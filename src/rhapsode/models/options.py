"""Checks the options of a request and the settings of a deployment against the dataclasses that a family declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from rhapsode.errors import ConfigError, InvalidRequest, RhapsodeError, UnknownOption, did_you_mean
from rhapsode.models.abilities import unknown_name
from rhapsode.models.spec import ModelSpec


def parse_options(spec: ModelSpec, given: Mapping[str, Any], known: Iterable[str] | None = None) -> Any:
    """Returns an instance of `spec.options`: the family's defaults with what the request sets.

    `known` are the options that an error suggests; by default all of them.
    """
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"options must be names and values, not {type(given).__name__}.", param="options")
    if not given:
        return _default(spec.options)

    def hint(name: str) -> str:
        return unknown_name(name, spec.option_names if known is None else known)

    return _parse(spec.name, spec.options, given, hint, UnknownOption, InvalidRequest)


def parse_settings(spec: ModelSpec, given: Mapping[str, Any]) -> Any:
    """Returns an instance of `spec.settings`: the family's defaults with what the deployment sets under `options`."""

    def hint(name: str) -> str:
        return did_you_mean(name, _types(spec.settings))

    return _parse(f"a deployment of {spec.name}", spec.settings, given, hint, ConfigError, ConfigError)


@lru_cache
def _types(into: type) -> dict[str, Any]:
    return get_type_hints(into)


@lru_cache
def _default(into: type) -> Any:
    return into()


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _parse(
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
