"""The spec of MOSS-TTS-Nano."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rhapsode.models.base import Companion, Layout, ModelSpec, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class MossOptions:
    cloning: Literal["reference", "continuation"] | None = None
    """How a reference is used: for the sound of the voice, or as speech to continue (this needs its transcript). By
    default it is continued if there is a transcript."""
    max_text_tokens: int = 75
    """A cloned voice speaks a longer text in parts of at most so many tokens; 0 speaks it in one."""
    nq: int | None = None
    """How many codebooks are generated; by default all. Fewer are faster and coarser."""
    text_temperature: float = 1.0
    """Temperature of the decision to end; 0 is greedy, and so is a request whose `temperature` is 0."""
    text_top_k: int = 50
    text_top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.max_text_tokens < 0:
            raise ValueError("max_text_tokens must be 0 (off) or more")
        if self.nq is not None and self.nq < 1:
            raise ValueError("nq must be at least 1")
        if not 0 <= self.text_temperature <= 10:
            raise ValueError("text_temperature must be between 0 and 10")
        if self.text_top_k < 0:
            raise ValueError("text_top_k must be 0 (off) or more")
        if not 0 < self.text_top_p <= 1:
            raise ValueError("text_top_p must be above 0 and at most 1")


_PACKAGE = "rhapsode.models.moss_tts_nano"

SPEC = ModelSpec(
    name="moss-tts-nano",
    summary="many languages, cloning, small enough for a CPU; 48 kHz stereo (Apache-2.0)",
    layouts=(Layout(where={"model_type": ("moss_tts_nano",)}),),
    companions=(
        Companion(
            "codec",
            default="OpenMOSS-Team/MOSS-Audio-Tokenizer-Nano",
            named_by="audio_tokenizer_pretrained_name_or_path",
        ),
    ),
    published=("OpenMOSS-Team/MOSS-TTS-Nano",),
    sample_rate=48_000,
    channels=2,
    frame_hz=12.5,
    can=Capabilities(clone=True, continuation=True, text_stream=True),
    options=MossOptions,
    requires=("safetensors",),
    files=("pytorch_model.bin", "tokenizer.model"),
    needs=(
        "config.json",
        "model.safetensors|model.safetensors.index.json|pytorch_model.bin",
        "tokenizer.model",
    ),
    tokenizer="rhapsode.models.moss_tts_nano.prepare:read_encode",
    pipeline=(
        StageSpec("prepare", "call", f"{_PACKAGE}.prepare:MossPrepare", next=("encode",)),
        StageSpec("encode", "call", f"{_PACKAGE}.encode:MossEncode", next=("talk", "vocode"), on_device=True, batch=8),
        StageSpec("talk", "frame", f"{_PACKAGE}.talker:MossTalker", stream_to=("vocode",), takes_text=True),
        StageSpec("vocode", "stream", f"{_PACKAGE}.codec:MossCodec"),
    ),
)
