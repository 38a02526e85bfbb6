"""The ranges of options: declared beside their types, checked when the options are made, shown in documentation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Range:
    """The values that a number may have: `temperature: Annotated[float, Range(0, 10)] = 1.0`."""

    least: float
    most: float | None = None
    above: bool = False
    """Whether `least` itself is excluded."""
    off: bool = False
    """Whether 0 turns the option off."""

    def __contains__(self, value: float) -> bool:
        is_low = value <= self.least if self.above else not value >= self.least
        return not is_low and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        """Returns the range in words, as after "must be": `between 0 and 10`, `above 0`, `at least 2`."""
        least = "0 (off)" if self.off else f"{self.least:g}"
        if self.above:
            return f"above {least}" if self.most is None else f"above {least} and at most {self.most:g}"
        if self.most is not None:
            return f"between {least} and {self.most:g}"
        return f"{least} or more" if self.least == 0 else f"at least {least}"

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Adds the bounds to the JSON schema of an option."""
        bounds = {"exclusiveMinimum" if self.above else "minimum": self.least, "maximum": self.most}
        return {**handler(core_schema), **{name: bound for name, bound in bounds.items() if bound is not None}}


class Ranged:
    """The base of a dataclass whose `Annotated` ranges are checked when it is made. `None` is in every range."""

    def __post_init__(self) -> None:
        kind: type = type(self)
        for name, allowed in ranges_of(kind).items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise ValueError(f"{name} must be {allowed}, not {value}")


@lru_cache
def ranges_of(kind: type) -> dict[str, Range]:
    """Returns the ranges that a dataclass declares, by the names of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    annotated = {name: get_args(hint)[1:] for name, hint in hints.items() if get_origin(hint) is Annotated}
    return {name: part for name, parts in annotated.items() for part in parts if isinstance(part, Range)}
