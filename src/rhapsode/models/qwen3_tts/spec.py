"""The spec of Qwen3-TTS 12 Hz."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rhapsode.models.base import Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class Qwen3Options(Ranged):
    task_type: Literal["Base", "CustomVoice", "VoiceDesign"] | None = None
    """The kind of checkpoint that the request is for; another kind is an error."""
    non_streaming_mode: bool | None = None
    """Puts the whole text into the prompt, not one token per frame. By default true, false for cloned voices."""
    x_vector_only_mode: bool | None = None
    """Clones from the speaker embedding alone, even if the reference has a transcript. By default what the checkpoint
    declares, else false."""
    subtalker_temperature: Annotated[float | None, Range(0, 10)] = None
    """Temperature of the codes after the first of each frame; 0 is greedy."""
    subtalker_top_k: Annotated[int | None, Range(0, off=True)] = None
    """Top-k of the codes after the first of each frame."""
    subtalker_top_p: Annotated[float | None, Range(0, 1, above=True)] = None
    """Top-p of the codes after the first of each frame."""


KINDS = {
    "Base": Capabilities(clone=True, embedding=True, text_stream=True),
    "CustomVoice 0.6B": Capabilities(presets=True, text_stream=True),
    "CustomVoice 1.7B": Capabilities(presets=True, instructions=True, text_stream=True),
    "VoiceDesign": Capabilities(design=True, instructions=True, text_stream=True),
}

SPEC = ModelSpec(
    name="qwen3-tts",
    summary="ten languages, cloning, preset voices, voices by description; 24 kHz (Apache-2.0)",
    layouts=(Layout(where={"architectures": ("Qwen3TTSForConditionalGeneration",)}),),
    published=("Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice", "Qwen/Qwen3-TTS-12Hz-1.7B-Base"),
    sample_rate=24_000,
    frame_hz=12.5,
    can=Capabilities(clone=True, embedding=True, presets=True, design=True, instructions=True, text_stream=True),
    kinds=KINDS,
    languages=("zh", "en", "de", "it", "pt", "es", "ja", "ko", "fr", "ru"),
    describe="rhapsode.models.qwen3_tts.info:describe",
    options=Qwen3Options,
    option_needs={"x_vector_only_mode": "clone"},
    requires=("tokenizers", "safetensors"),
    needs=(
        "config.json",
        "model.safetensors|model.safetensors.index.json",
        "tokenizer.json|vocab.json",
        "tokenizer.json|merges.txt",
        "speech_tokenizer/config.json",
        "speech_tokenizer/model.safetensors|speech_tokenizer/model.safetensors.index.json",
    ),
    tokenizer="rhapsode.checkpoints.qwen2_tokenizer:read",
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.qwen3_tts.prepare:QwenPrepare", next=("encode",)),
        StageSpec(
            "encode",
            "call",
            "rhapsode.models.qwen3_tts.encode:QwenEncode",
            next=("talk", "vocode"),
            embeds=True,
            on_device=True,
            batch=8,
        ),
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
