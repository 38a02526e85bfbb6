"""The shapes of the benchmarks have the values of the published configurations."""

import json
from typing import Any

import pytest

from rhapsode.bench.engine.subject import SHAPES
from unit.real.published import facts

WHOLE = {"voxcpm2/config.json": "voxcpm2/config.json", "voxtral-tts/params.json": "voxtral_tts/params.json"}
"""Shapes that have every published key, and the facts about them."""
PARTS = {f"qwen3-tts-1.7b/{file}": f"qwen3_tts/{file}" for file in ("config.json", "speech_tokenizer/config.json")}
"""Shapes that have only the keys which a benchmark needs."""


@pytest.mark.parametrize(("shape", "published"), WHOLE.items())
def test_a_shape_is_the_published_configuration(shape: str, published: str) -> None:
    assert read(shape) == facts(published)


@pytest.mark.parametrize(("shape", "published"), PARTS.items())
def test_what_a_shape_has_is_published(shape: str, published: str) -> None:
    assert list(differences(read(shape), facts(published))) == []


def test_a_difference_is_noticed() -> None:
    assert list(differences({"a": {"b": 1}, "c": [2]}, {"a": {"b": 3}, "d": 4})) == ["a.b", "c"]


def test_the_control_tokens_of_higgs_v3_have_the_published_ids() -> None:
    listed = read("higgs-v3/tokenizer_config.json")["added_tokens_decoder"]
    ids = {entry["content"]: int(number) for number, entry in listed.items()}
    published = facts("higgs_v3/control_tokens.json")
    assert ids == {name: published[name] for name in ids}
    assert ids["<|ref_text|>"] == 151_680


def read(shape: str) -> Any:
    return json.loads((SHAPES / shape).read_text("utf-8"))


def differences(shape: dict[str, Any], published: dict[str, Any], path: str = "") -> Any:
    """Yields the keys whose values differ from the published ones."""
    for key, value in shape.items():
        there = published.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            yield from differences(value, there, f"{path}{key}.")
        elif value != there:
            yield f"{path}{key}"
