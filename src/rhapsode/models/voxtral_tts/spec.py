"""The spec of Voxtral-TTS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rhapsode.models.base import Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class VoxtralOptions(Ranged):
    cfg_alpha: Annotated[float, Range(0, 10)] = 1.2
    """Strength of classifier-free guidance of the acoustic codes; 1 is no guidance."""


@dataclass(frozen=True)
class VoxtralSettings(Ranged):
    warm_up_frames: Annotated[int, Range(0, 8)] = 0
    """Copies of the first frame that the codec decodes before it, unheard: a softer start, as other servers have it.
    Every launch of the codec takes the time of so many frames more."""
    fade_in_ms: Annotated[float, Range(0, 1000)] = 0.0
    """Length of a linear fade at the start of speech."""


SPEC = ModelSpec(
    name="voxtral-tts",
    summary="nine languages, twenty preset voices; 24 kHz (weights CC BY-NC 4.0)",
    layouts=(
        Layout("params.json", {"model_type": ("voxtral_tts",)}),
        Layout("params.json", {"architectures": ("VoxtralTTSForConditionalGeneration",)}),
    ),
    published=("mistralai/Voxtral-4B-TTS-2603",),
    sample_rate=24_000,
    frame_hz=12.5,
    can=Capabilities(presets=True, clone=True),
    kinds={"": Capabilities(presets=True), "with an encoder": Capabilities(presets=True, clone=True)},
    languages=("en", "fr", "es", "de", "it", "pt", "nl", "ar", "hi"),
    describe="rhapsode.models.voxtral_tts.info:describe",
    options=VoxtralOptions,
    sampling=("temperature",),
    settings=VoxtralSettings,
    requires=("tokenizers", "safetensors"),
    files=("voice_embedding/*.pt",),
    needs=(
        "params.json",
        "*.safetensors",
        "tekken.json",
    ),
    tokenizer="rhapsode.models.voxtral_tts.tokenizer:read",
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.voxtral_tts.prepare:VoxtralPrepare", next=("encode",)),
        StageSpec(
            "encode",
            "call",
            "rhapsode.models.voxtral_tts.encode:VoxtralEncode",
            next=("talk", "vocode"),
            on_device=True,
            batch=8,
        ),
        StageSpec("talk", "frame", "rhapsode.models.voxtral_tts.talker:VoxtralTalker", stream_to=("vocode",)),
        StageSpec("vocode", "stream", "rhapsode.models.voxtral_tts.codec:VoxtralCodec"),
    ),
)
