"""What `/v1/models` says of a model. It needs no engine: a model that is not loaded is described as well."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rhapsode.audio.formats import FORMATS
from rhapsode.config import Deployment
from rhapsode.models.base import ModelSpec
from rhapsode.models.option_schema import options_schema, sampling_schema
from rhapsode.text.markup import INPUT_TYPES
from rhapsode.text.normalise.language import LANGUAGES
from rhapsode.text.ssml import ELEMENTS
from rhapsode.types import ModelInfo

HIDDEN = ("api_keys", "key_dialects", "api_keys_file", "voices")
"""Settings of the server that clients do not see."""


def entry(name: str, created: int) -> dict[str, Any]:
    """Returns what OpenAI's API says of a model."""
    return {"id": name, "object": "model", "created": created, "owned_by": "rhapsode"}


def description(
    info: ModelInfo, spec: ModelSpec, deployment: Deployment, lexicon_words: int, word_languages: Collection[str]
) -> dict[str, Any]:
    """Returns what a checkpoint can do, and how it is deployed."""
    options = options_schema(spec)["properties"]
    return {
        "family": info.family,
        "variant": info.variant or None,
        "summary": info.summary,
        "sample_rate": info.sample_rate,
        "channels": info.channels,
        "frame_hz": info.frame_hz,
        "capabilities": list(info.can.names()),
        "references": info.can.references if info.takes_references else 0,
        "reference_needs": list(info.reference_needs),
        "voices": list(info.voices),
        "voices_to_download": list(info.to_download),
        "languages": list(info.languages),
        "text": {
            "input_types": list(INPUT_TYPES),
            "normalise": info.normalise,
            "phonemes": info.phonemes,
            "normalise_languages": list(LANGUAGES),
            "ssml": list(ELEMENTS),
            "lexicon_words": lexicon_words,
            "word_timestamps": list(word_languages),
        },
        "formats": list(FORMATS),
        "default_voice": info.default_voice,
        "sampling": list(info.sampling),
        "sampling_parameters": sampling_schema(info.sampling),
        "options": {name: about for name, about in options.items() if name in info.options},
        "embedding_size": info.embedding_size,
        "deployment": deployment.model_dump(
            mode="json",
            exclude={
                "server": {**dict.fromkeys(HIDDEN, True), "cache": {"folder"}},
                "lexicon": True,
                "alignment": {"model"},
            },
        ),
    }
