"""The specs of Higgs audio v2 and Higgs TTS v3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rhapsode.models.base import Companion, Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities

SAMPLE_RATE, FRAME_HZ = 24_000, 25.0
QUIET_ROOM = "Audio is recorded from a quiet room."
MOST_WINDOW = 32
"""Rows that repetition-aware sampling can look at."""

_PACKAGE = "rhapsode.models.higgs"
SAMPLING = ("temperature", "top_k", "top_p")


@dataclass(frozen=True)
class HiggsV2Options(Ranged):
    scene: str = QUIET_ROOM
    """Where the recording is made, and who speaks: a line `SPEAKER0: an old man` describes a speaker. A line
    `SPEAKER0:` without a description takes the next reference. Empty: no scene."""
    chunk: Literal["speaker", "sentence"] | None = None
    """Generates a long text piece by piece, each after all before it: a speaker's turn or a sentence at a time."""
    ras_window: Annotated[int | None, Range(1, MOST_WINDOW)] = None
    """Rows that repetition-aware sampling looks at; by default what the checkpoint says, or 7."""
    ras_limit: Annotated[int | None, Range(0, MOST_WINDOW, off=True)] = None
    """How often a code may be among them before it is drawn again without filters; 0 is off. By default what the
    checkpoint says, or 2."""


@dataclass(frozen=True)
class HiggsV3Options:
    chunk: Literal["sentence"] | None = None
    """Generates a long text a sentence at a time, each with the reference and no other context."""


def _pipeline(generation: str) -> tuple[StageSpec, ...]:
    return (
        StageSpec("prepare", "call", f"{_PACKAGE}.prepare:Higgs{generation}Prepare", next=("encode",)),
        StageSpec(
            "encode", "call", f"{_PACKAGE}.encode:Higgs{generation}Encode", next=("talk",), on_device=True, batch=8
        ),
        StageSpec(
            "talk", "frame", f"{_PACKAGE}.talker:Higgs{generation}Talker", stream_to=("vocode",), takes_text=True
        ),
        StageSpec("vocode", "stream", f"{_PACKAGE}.vocode:{generation.lower()}_codec"),
    )


V2 = ModelSpec(
    name="higgs-v2",
    summary="scenes, described voices, dialogues in cloned voices; 24 kHz (weights: Boson community licence)",
    layouts=(
        Layout(where={"architectures": ("HiggsAudioV2ForConditionalGeneration",)}),
        Layout(where={"model_type": ("higgs_audio_v2", "higgs_audio")}),
    ),
    companions=(
        Companion(
            "codec",
            default="bosonai/higgs-audio-v2-tokenizer",
            named_by="processor_config.json:audio_tokenizer.audio_tokenizer_name_or_path",
        ),
    ),
    sample_rate=SAMPLE_RATE,
    frame_hz=FRAME_HZ,
    published=("bosonai/higgs-audio-v2-generation-3B-base",),
    can=Capabilities(clone=True, design=True, instructions=True, text_stream=True, references=8),
    options=HiggsV2Options,
    sampling=SAMPLING,
    needs=("config.json", "model.safetensors|model.safetensors.index.json", "tokenizer.json"),
    tokenizer=f"{_PACKAGE}.tokenizer:read",
    requires=("tokenizers", "safetensors"),
    pipeline=_pipeline("V2"),
)

V3 = ModelSpec(
    name="higgs-v3",
    summary="a hundred languages, cloning, control tags in the text; 24 kHz (weights: research, no commercial use)",
    layouts=(
        Layout(where={"architectures": ("HiggsMultimodalQwen3ForConditionalGeneration",)}),
        Layout(where={"model_type": ("higgs_multimodal_qwen3",)}),
    ),
    sample_rate=SAMPLE_RATE,
    frame_hz=FRAME_HZ,
    published=("bosonai/higgs-audio-v3-tts-4b",),
    can=Capabilities(clone=True, text_stream=True),
    instead={"instructions": "Write tags into the text, such as <|emotion:elation|>."},
    options=HiggsV3Options,
    sampling=SAMPLING,
    needs=("config.json", "model.safetensors|model.safetensors.index.json", "tokenizer.json"),
    tokenizer=f"{_PACKAGE}.tokenizer:read",
    requires=("tokenizers", "safetensors"),
    pipeline=_pipeline("V3"),
)

SPEC = (V2, V3)
