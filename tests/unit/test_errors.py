"""Errors know what to tell a person, and what to tell an HTTP client."""

import pytest

from rhapsode import errors
from rhapsode.errors import Busy, RhapsodeError, did_you_mean


def descendants(kind: type[RhapsodeError]) -> list[type[RhapsodeError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in descendants(child))]


OWN = [kind for kind in descendants(RhapsodeError) if kind.__module__ == errors.__name__]

EXPECTED = {
    "RhapsodeError": (500, "server_error", "internal_error"),
    "InvalidRequest": (400, "invalid_request_error", "invalid_value"),
    "UnknownOption": (400, "invalid_request_error", "unknown_parameter"),
    "UnknownVoice": (400, "invalid_request_error", "unknown_voice"),
    "UnknownModel": (404, "invalid_request_error", "model_not_found"),
    "TextTooLong": (413, "invalid_request_error", "text_too_long"),
    "BadAudio": (400, "invalid_request_error", "invalid_audio"),
    "Busy": (429, "rate_limit_error", "queue_full"),
    "Unavailable": (503, "server_error", "unavailable"),
    "TimedOut": (504, "server_error", "timeout"),
    "Aborted": (499, "request_aborted", "aborted"),
    "GenerationFailed": (500, "server_error", "generation_failed"),
    "Runaway": (500, "server_error", "runaway"),
    "EmptyAudio": (500, "server_error", "empty_audio"),
    "ConfigError": (400, "invalid_request_error", "invalid_config"),
    "CheckpointError": (500, "server_error", "invalid_checkpoint"),
    "MissingDependency": (501, "server_error", "missing_dependency"),
    "OutputError": (400, "invalid_request_error", "unwritable_output"),
}


@pytest.mark.parametrize(("name", "known"), EXPECTED.items())
def test_an_error_knows_its_status_type_and_code(name: str, known: tuple[int, str, str]) -> None:
    kind = getattr(errors, name)
    assert (kind.status, kind.type, kind.code) == known


@pytest.mark.parametrize("kind", OWN)
def test_an_error_has_an_openai_shaped_body(kind: type[RhapsodeError]) -> None:
    error = kind("it broke.")
    expected = {"message": "it broke.", "type": kind.type, "param": None, "code": kind.code}
    assert error.body() == {"error": expected}
    assert str(error) == error.message == "it broke."


def test_an_error_names_the_parameter_it_is_about() -> None:
    assert errors.InvalidRequest("too fast.", param="speed").body()["error"]["param"] == "speed"


def test_busy_says_when_to_try_again() -> None:
    assert Busy("full.", retry_after_s=2.5).retry_after_s == 2.5
    assert Busy("full.").retry_after_s > 0


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in OWN]
    assert len(OWN) >= len(EXPECTED)
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", OWN)
def test_the_type_of_an_error_agrees_with_its_status(kind: type[RhapsodeError]) -> None:
    assert 400 <= kind.status < 600
    assert (kind.type == "server_error") == (kind.status >= 500)


@pytest.mark.parametrize("kind", OWN)
def test_one_clause_catches_every_error(kind: type[RhapsodeError]) -> None:
    with pytest.raises(RhapsodeError, match="it broke"):
        raise kind("it broke.")


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("spede", ["speed", "seed"], "did you mean 'speed'?"),
        ("zzz", ["b", "a"], "known: a, b."),
        ("zzz", [], "there are none."),
    ],
)
def test_a_hint_names_the_nearest_known_name_or_all_of_them(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, known) == hint


def test_a_hint_takes_any_iterable() -> None:
    assert did_you_mean("hart", (name for name in ("heart", "emma"))) == "did you mean 'heart'?"
