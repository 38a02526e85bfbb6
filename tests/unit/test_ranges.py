"""Ranges of options: checked where options are made, and shown in the schema."""

from dataclasses import dataclass, fields
from typing import Annotated, get_type_hints

import pytest

from rhapsode.models.option_schema import options_schema
from rhapsode.models.registry import families
from rhapsode.ranges import Range, Ranged, ranges_of

NAN, INFINITY = float("nan"), float("inf")
SPECS = families()[0]


@pytest.mark.parametrize(
    ("allowed", "words", "good", "bad"),
    [
        (Range(0, 10), "between 0 and 10", (0, 10, 0.5), (-0.1, 10.1, NAN, INFINITY)),
        (Range(1), "at least 1", (1, 10**9), (0, -1, NAN)),
        (Range(0), "0 or more", (0, 5), (-1,)),
        (Range(0, off=True), "0 (off) or more", (0, 5), (-1,)),
        (Range(0, 32, off=True), "between 0 (off) and 32", (0, 32), (-1, 33)),
        (Range(0, 1, above=True), "above 0 and at most 1", (1e-9, 1), (0, 1.1, -1, NAN)),
        (Range(0, above=True), "above 0", (0.1,), (0,)),
    ],
)
def test_a_range_says_what_it_holds(allowed: Range, words: str, good: tuple, bad: tuple) -> None:
    assert str(allowed) == words
    assert all(value in allowed for value in good)
    assert not any(value in allowed for value in bad)


@dataclass(frozen=True)
class Options(Ranged):
    plain: int = 3
    steps: Annotated[int | None, Range(1, 8)] = None


def test_options_out_of_range_are_refused_with_name_range_and_value() -> None:
    assert Options().steps is None
    assert Options(steps=8).steps == 8
    with pytest.raises(ValueError, match=r"^steps must be between 1 and 8, not 9$"):
        Options(steps=9)


@pytest.mark.parametrize("name", SPECS)
def test_every_option_of_every_family_has_a_description_and_every_number_a_range(name: str) -> None:
    spec = SPECS[name]
    about, hints = options_schema(spec)["properties"], get_type_hints(spec.options)
    assert [option.name for option in fields(spec.options) if not about[option.name].get("description")] == []
    numbers = {option for option, hint in hints.items() if hint in (int, float, int | None, float | None)}
    assert numbers == ranges_of(spec.options).keys()
    for option in numbers:
        assert "minimum" in about[option] or "exclusiveMinimum" in about[option]
