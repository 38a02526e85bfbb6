"""The spec of a wrapped package: quick, and the teacher of the packaged voice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rhapsode.models.base import ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class HibariOptions(Ranged):
    pause_s: Annotated[float, Range(0, 10)] = 0.25
    """Silence between two sentences."""


SPEC = ModelSpec(
    name="hibari",
    summary="English, 24 kHz, about 100 times real time on one CPU core (hibari-tts, Apache-2.0)",
    sample_rate=24_000,
    can=Capabilities(presets=True, text_stream=True),
    voices=("heart", "fenrir", "emma", "fable", "kore"),
    languages=("en",),
    describe="rhapsode.models.hibari.info:describe",
    normalise=True,
    options=HibariOptions,
    sampling=(),
    requires=("hibari",),
    extra="hibari",
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.hibari.prompt:HibariPrepare", next=("speak",), workers=2),
        StageSpec("speak", "generator", "rhapsode.models.hibari.speaker:Speaker", takes_text=True),
    ),
)
