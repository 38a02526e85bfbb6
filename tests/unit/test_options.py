"""A family's options are typed and strict."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from rhapsode.errors import InvalidRequest, UnknownOption
from rhapsode.models.base import ModelSpec, NoOptions
from rhapsode.models.dummy.spec import SPEC as DUMMY
from rhapsode.models.options import parse_options


@dataclass(frozen=True)
class Options:
    pause_s: float = 0.25
    repeats: int = 1
    style: Literal["calm", "excited"] = "calm"
    endless: bool = False
    words: list[str] = field(default_factory=list)
    language: str | None = None


SPEC: ModelSpec = replace(DUMMY, name="fancy", options=Options)


def test_without_anything_set_the_familys_defaults_hold() -> None:
    assert parse_options(SPEC, {}) == Options()


def test_what_is_set_replaces_only_its_own_default() -> None:
    given = {"repeats": 3, "style": "excited", "words": ["a"], "language": "en"}
    assert parse_options(SPEC, given) == Options(repeats=3, style="excited", words=["a"], language="en")


def test_a_whole_number_will_do_where_a_number_is_asked_for() -> None:
    assert parse_options(SPEC, {"pause_s": 1}).pause_s == 1.0


def test_an_unknown_option_is_answered_with_the_nearest_known_one() -> None:
    with pytest.raises(UnknownOption, match=r"fancy has no option 'pause': did you mean 'pause_s'\?") as caught:
        parse_options(SPEC, {"pause": 1.0})
    assert caught.value.param == "pause"


def test_an_unknown_option_like_no_other_is_answered_with_all_of_them() -> None:
    with pytest.raises(UnknownOption) as caught:
        parse_options(SPEC, {"zzzzz": 1.0})
    assert all(name in caught.value.message for name in Options.__dataclass_fields__)


def test_a_family_without_options_takes_none() -> None:
    with pytest.raises(UnknownOption, match="there are none"):
        parse_options(replace(DUMMY, options=NoOptions), {"endless": True})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pause_s", "0.5"),
        ("pause_s", True),
        ("pause_s", None),
        ("repeats", 1.5),
        ("repeats", "3"),
        ("style", "angry"),
        ("endless", 1),
        ("endless", "yes"),
        ("words", "a"),
        ("words", [1]),
        ("language", 5),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"option '{name}'") as caught:
        parse_options(SPEC, {name: value})
    assert caught.value.param == name
    assert repr(value) in caught.value.message
