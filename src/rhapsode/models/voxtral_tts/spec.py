"""The spec of Voxtral-TTS."""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.models.base import Layout, ModelSpec, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class VoxtralOptions:
    cfg_alpha: float = 1.2
    """Strength of classifier-free guidance of the acoustic codes; 1 is no guidance."""

    def __post_init__(self) -> None:
        if not 0 <= self.cfg_alpha <= 10:
            raise ValueError("cfg_alpha must be between 0 and 10")


@dataclass(frozen=True)
class VoxtralSettings:
    warm_up_frames: int = 0
    """Copies of the first frame that the codec decodes before it, unheard: a softer start, as other servers have it.
    Every launch of the codec takes the time of so many frames more."""
    fade_in_ms: float = 0.0
    """Length of a linear fade at the start of speech."""

    def __post_init__(self) -> None:
        if not 0 <= self.warm_up_frames <= 8:
            raise ValueError("warm_up_frames must be between 0 and 8")
        if not 0 <= self.fade_in_ms <= 1000:
            raise ValueError("fade_in_ms must be between 0 and 1000")


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
