"""The spec of a wrapped package: quick, and the teacher of the packaged voice."""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.models.base import ModelSpec, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class HibariOptions:
    pause_s: float = 0.25
    """Silence between two sentences, up to 10 s."""

    def __post_init__(self) -> None:
        if not 0 <= self.pause_s <= 10:
            raise ValueError(f"pause_s must be between 0 and 10, not {self.pause_s}")


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
