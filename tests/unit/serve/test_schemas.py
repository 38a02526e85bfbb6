"""Bodies: strict, with the family's options among their fields."""

import json

import pytest

from rhapsode.errors import InvalidRequest, UnknownOption
from rhapsode.models.option_schema import options_schema
from rhapsode.models.registry import families
from rhapsode.serve.request.openapi import request_body
from rhapsode.serve.request.schemas import Schemas, parse

SPECS = families()[0]
DUMMY = Schemas(SPECS["dummy"])


def complaint(body: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(DUMMY.speech, json.dumps(body).encode())
    return caught.value


@pytest.mark.parametrize("name", [name for name in SPECS if name in ("dummy", "hibari", "qwen3-tts")])
def test_every_option_of_a_family_is_a_field(name: str) -> None:
    schemas = Schemas(SPECS[name])
    for body in (schemas.speech, schemas.batch, schemas.session):
        assert set(schemas.option_names) <= body.model_fields.keys()


def test_an_option_says_what_its_docstring_says() -> None:
    properties = options_schema(SPECS["qwen3-tts"])["properties"]
    says = "The kind of checkpoint that the request is for; another kind is an error."
    assert properties["task_type"]["description"] == says
    body = request_body(Schemas(SPECS["qwen3-tts"]).speech)["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["task_type"]["description"] == properties["task_type"]["description"]
    assert "$ref" not in json.dumps(body)


def test_what_was_set_is_kept_apart_from_what_was_not() -> None:
    body = parse(DUMMY.speech, b'{"input": "x", "speed": 1.0}')
    assert body.model_fields_set == {"input", "speed"}


def test_an_unknown_field_names_the_nearest_one() -> None:
    error = complaint({"input": "x", "respons_format": "mp3"})
    assert isinstance(error, UnknownOption)
    assert error.message == "there is no field 'respons_format': did you mean 'response_format'?"


def test_an_unknown_field_that_is_an_option_of_another_family_names_it() -> None:
    assert complaint({"input": "x", "scene": "y"}).message == "there is no field 'scene': it is an option of higgs-v2."


def test_an_unknown_field_is_answered_only_with_fields_that_this_checkpoint_takes() -> None:
    spec = SPECS["higgs-v2"]
    for schemas in (Schemas(spec), Schemas(spec, spec.info())):
        for body, fields in ((schemas.speech, {"input": "x"}), (schemas.batch, {"items": [{}]}), (schemas.session, {})):
            with pytest.raises(UnknownOption) as caught:
                parse(body, json.dumps({**fields, "zzzzzz": 1}).encode())
            known = caught.value.message.partition("known: ")[2].rstrip(".").split(", ")
            assert {"scene", "temperature", "ref_audio"} <= set(known)
            assert not schemas.unused & set(known)
            assert {"repetition_penalty", "speaker_embedding", "prompt_audio"} <= schemas.unused


def test_an_unknown_field_inside_another_is_named_by_its_path() -> None:
    assert complaint({"input": "x", "references": [{"audoi": "x"}]}).param == "references.0.audoi"


@pytest.mark.parametrize(
    ("body", "param"),
    [({"voice": {"name": "x"}}, "voice.id"), ({"ref_audio": [1]}, "ref_audio.0"), ({"messages": "x"}, "messages")],
)
def test_of_several_types_the_one_that_was_meant_is_explained(body: dict, param: str) -> None:
    assert complaint({"input": "x", **body}).param == param


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"nul", b'{"input": "\\ud800"}', b"[" * 10_000])
def test_what_is_not_json_is_one_sentence(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"^the body is not valid JSON\.$"):
        parse(DUMMY.speech, body)


def test_numbers_are_numbers_and_finite() -> None:
    for value in (b"NaN", b"Infinity", b"1e400", b'"1"', b"true"):
        with pytest.raises(InvalidRequest):
            parse(DUMMY.speech, b'{"input": "x", "speed": ' + value + b"}")
    assert parse(DUMMY.speech, b'{"input": "x", "speed": 2}').speed == 2.0
