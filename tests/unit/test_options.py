"""A family's options, of a request and of a deployment, are typed and strict."""

import pickle
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from rhapsode.config import resolve
from rhapsode.engine import Engine
from rhapsode.errors import ConfigError, InvalidRequest, UnknownOption
from rhapsode.models.base import ModelSpec, NoOptions
from rhapsode.models.dummy.spec import SPEC as DUMMY
from rhapsode.models.dummy.spec import DummyOptions, DummySettings
from rhapsode.models.options import parse_options
from rhapsode.models.qwen3_tts.spec import SPEC as QWEN
from rhapsode.models.registry import families
from rhapsode.models.settings import parse_settings
from rhapsode.types import SpeechRequest


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


def test_a_value_the_dataclass_refuses_names_its_option() -> None:
    with pytest.raises(InvalidRequest, match="subtalker_top_p must be above 0") as caught:
        parse_options(QWEN, {"subtalker_top_p": 0.0})
    assert caught.value.param == "subtalker_top_p"


@pytest.mark.parametrize("given", [3, "endless", ["endless"], None])
def test_options_are_names_and_values(given: Any) -> None:
    with pytest.raises(InvalidRequest, match="names and values"):
        parse_options(SPEC, given)


# --- the settings of a deployment ---


def test_settings_have_the_familys_defaults() -> None:
    assert parse_settings(DUMMY, {}) == DummySettings()
    assert parse_settings(DUMMY, {"lookahead": 2}).lookahead == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"lokahead": 3}, r"a deployment of dummy has no option 'lokahead': did you mean 'lookahead'\?"),
        ({"lookahead": "three"}, "option 'lookahead': .* got 'three'"),
        ({"lookahead": -1}, "lookahead must be 0 or more"),
        ({"random_weights": True}, "no option 'random_weights'"),
        ({5: 1}, "no option '5'"),
    ],
)
def test_a_setting_that_does_not_exist_or_fit_is_refused(given: dict[Any, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_settings(DUMMY, given)


def test_a_misspelt_setting_stops_the_engine_before_it_loads_anything() -> None:
    deployment = resolve(env={}, flags={"model": "dummy", "device": "cpu", "options": {"lokahead": 3}})
    with pytest.raises(ConfigError, match="did you mean 'lookahead'"):
        Engine(DUMMY, deployment)


# --- a request's options are parsed once ---


def test_stages_get_the_parsed_options_and_the_request_of_the_user_stays_as_it_is() -> None:
    deployment = resolve(env={}, flags={"model": "dummy", "device": "cpu", "limits": {"max_concurrency": 1}})
    seen = []
    request = SpeechRequest("Hi.", options={"endless": False})
    with Engine(DUMMY, deployment) as engine:
        enter = engine.pipeline.enter
        engine.pipeline.enter = lambda work: seen.append(work.payload.options) or enter(work)  # type: ignore[method-assign]
        assert sum(chunk.samples.shape[1] for chunk in engine.submit(request)) > 0
    assert seen == [DummyOptions(endless=False)]
    assert request.options == {"endless": False}


@pytest.mark.parametrize("name", families()[0])
def test_options_can_go_to_another_process(name: str) -> None:
    """A server checks requests, and sends them to the process of its engine."""
    options = parse_options(families()[0][name], {})
    assert pickle.loads(pickle.dumps(options)) == options
