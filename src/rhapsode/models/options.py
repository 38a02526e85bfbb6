"""Checks the options of a request against the dataclass that a family declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from rhapsode.errors import InvalidRequest, UnknownOption
from rhapsode.models.abilities import unknown_name
from rhapsode.models.settings import parse
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

    return parse(spec.name, spec.options, given, hint, UnknownOption, InvalidRequest)


@lru_cache
def _default(into: type) -> Any:
    return into()
