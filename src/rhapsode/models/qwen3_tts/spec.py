"""Qwen3-TTS 12 Hz, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rhapsode.models.base import ModelSpec, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class Qwen3Options:
    task_type: Literal["Base", "CustomVoice", "VoiceDesign"] | None = None
    """What the checkpoint is expected to be; another kind is an error."""
    non_streaming_mode: bool | None = None
    """All of the text in the prompt, instead of one token per frame; by default true, but false for cloned voices."""
    x_vector_only_mode: bool = False
    """Clone from the speaker embedding alone, though the reference has a transcript."""
    subtalker_temperature: float | None = None
    """Of the codes after the first of each frame; 0 is greedy."""
    subtalker_top_k: int | None = None
    subtalker_top_p: float | None = None


SPEC = ModelSpec(
    name="qwen3-tts",
    summary="ten languages, cloning, preset voices, voices by description; 24 kHz (Apache-2.0)",
    architectures=("Qwen3TTSForConditionalGeneration",),
    sample_rate=24_000,
    frame_hz=12.5,
    can=Capabilities(clone=True, embedding=True, presets=True, design=True, text_stream=True),
    languages=("zh", "en", "de", "it", "pt", "es", "ja", "ko", "fr", "ru"),
    options=Qwen3Options,
    requires=("tokenizers", "safetensors"),
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.qwen3_tts.prepare:Prepare", next=("encode",), workers=2),
        StageSpec("encode", "call", "rhapsode.models.qwen3_tts.encode:Encode", next=("talk", "vocode"), batch=8),
        StageSpec(
            "talk",
            "frame",
            "rhapsode.models.qwen3_tts.talker:QwenTalker",
            stream_to=("vocode",),
            takes_text=True,
        ),
        StageSpec("vocode", "stream", "rhapsode.models.qwen3_tts.codec:QwenCodec"),
    ),
)
