"""Parts of the OpenAPI schema that FastAPI cannot derive, since bodies are parsed by our own code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel


class ErrorFields(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every error."""

    error: ErrorFields


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorBody, "description": HTTPStatus(status).phrase} for status in statuses}


def request_body(
    model: type[BaseModel], without: Iterable[str] = (), notes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Returns the OpenAPI description of a JSON body without some fields; `notes` are descriptions of other fields."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema["properties"] = {name: about for name, about in schema["properties"].items() if name not in set(without)}
    for name, note in (notes or {}).items():
        schema["properties"][name]["description"] = note
    definitions = schema.pop("$defs", {})
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": _inline(schema, definitions)}}}
    }


def _inline(schema: Any, definitions: dict[str, Any]) -> Any:
    """Replaces references by the schemas they refer to, since FastAPI does not add these to the components."""
    if isinstance(schema, list):
        return [_inline(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if (name := schema.get("$ref", "").rpartition("/")[2]) in definitions:
        return _inline(definitions[name], definitions)
    return {key: _inline(value, definitions) for key, value in schema.items()}
