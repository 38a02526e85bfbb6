"""The spec of MOSS-TTS-Nano."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rhapsode.models.base import Companion, Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class MossOptions(Ranged):
    cloning: Literal["reference", "continuation"] | None = None
    """How a reference is used: for the sound of the voice, or as speech to continue (this needs its transcript). By
    default it is continued if there is a transcript."""
    max_text_tokens: Annotated[int, Range(0, off=True)] = 75
    """A cloned voice speaks a longer text in parts of at most so many tokens; 0 speaks it in one."""
    nq: Annotated[int | None, Range(1)] = None
    """How many codebooks are generated; by default all. Fewer are faster and coarser."""
    text_temperature: Annotated[float, Range(0, 10)] = 1.0
    """Temperature of the decision to end; 0 is greedy, and so is a request whose `temperature` is 0."""
    text_top_k: Annotated[int, Range(0, off=True)] = 50
    """Top-k of the decision to end."""
    text_top_p: Annotated[float, Range(0, 1, above=True)] = 1.0
    """Top-p of the decision to end."""


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
