"""The spec of Kokoro."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rhapsode.models.base import Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class KokoroOptions(Ranged):
    rate: Annotated[float, Range(0.5, 2)] = 1.0
    """How fast the model speaks: it divides the durations of phonemes, where `speed` changes finished audio."""
    phonemes: str | None = None
    """What is spoken in place of the text: a string of the model's own phonemes."""
    cut: Literal["sentence", "line"] = "sentence"
    """What is spoken in one pass: each sentence, which is heard sooner; or each line, up to 510 phonemes, which has the
    prosody of the original package."""
    trim: bool = True
    """Cuts the silence that the model makes before and after each pass, and puts `pause_s` between two."""
    pause_s: Annotated[float, Range(0, 10)] = 0.25
    """Silence between two passes, where silence is trimmed."""


SPEC = ModelSpec(
    name="kokoro",
    summary="54 voices, English by a lexicon, others with espeak-ng; a sentence in one pass; 24 kHz (Apache-2.0)",
    layouts=(Layout(where={"model_type": ("kokoro",)}), Layout("config.json", {"istftnet": ()})),
    sample_rate=24_000,
    can=Capabilities(presets=True, text_stream=True),
    normalise=True,
    options=KokoroOptions,
    sampling=(),
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.kokoro.prepare:KokoroPrepare", next=("speak",), workers=2),
        StageSpec("speak", "generator", "rhapsode.models.kokoro.speaker:Speaker", takes_text=True, on_device=True),
    ),
)
