"""The spec of VoxCPM2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rhapsode.models.base import Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class VoxOptions(Ranged):
    cfg_value: Annotated[float, Range(0, 10)] = 2.0
    """Strength of classifier-free guidance; 1 is no guidance."""
    inference_timesteps: Annotated[int, Range(1)] = 10
    """Euler steps per patch: more are finer and slower. The deployment's `max_timesteps` is the most."""
    min_len: Annotated[int, Range(0)] = 2
    """The least number of patches of 160 ms before the end."""
    max_len: Annotated[int | None, Range(1)] = None
    """The most patches; speech that is cut there ends with the reason `length`."""
    cloning: Literal["reference", "continuation", "both"] | None = None
    """How a single reference is used: for the sound of the voice, as speech to continue (this needs its transcript), or
    for both. By default it is continued if there is a transcript and there are no instructions."""


USUAL_TIMESTEPS, MOST_TIMESTEPS = 10, 100
# fmt: off
LANGUAGES = (
    "zh", "en", "ar", "my", "da", "nl", "fi", "fr", "de", "el", "he", "hi", "id", "it", "ja",
    "km", "ko", "lo", "ms", "no", "pl", "pt", "ru", "es", "sw", "sv", "tl", "th", "tr", "vi",
)
# fmt: on


@dataclass(frozen=True)
class VoxSettings(Ranged):
    max_timesteps: Annotated[int, Range(1, MOST_TIMESTEPS)] = USUAL_TIMESTEPS
    """The most Euler steps a request may ask for. On a GPU every patch takes the time of so many."""
    lora: str = ""
    """An adapter to merge into the weights: a folder with `lora_weights.safetensors`, or such a file."""
    lora_alpha: float = 0.0
    """The adapter's alpha, if there is no `lora_config.json` beside it."""


SPEC = ModelSpec(
    name="voxcpm2",
    summary="thirty languages, cloning, voices by description; no codes but latents, 48 kHz (Apache-2.0)",
    layouts=(Layout(where={"architecture": ("voxcpm2",)}),),
    published=("openbmb/VoxCPM2",),
    sample_rate=48_000,
    frame_hz=6.25,
    can=Capabilities(clone=True, continuation=True, design=True, instructions=True),
    languages=LANGUAGES,
    describe="rhapsode.models.voxcpm2.info:describe",
    options=VoxOptions,
    sampling=("temperature",),
    settings=VoxSettings,
    requires=("tokenizers", "safetensors"),
    files=("audiovae.pth",),
    needs=(
        "config.json",
        "model.safetensors|model.safetensors.index.json",
        "tokenizer.json",
        "audiovae.safetensors|audiovae.pth",
    ),
    tokenizer="rhapsode.models.voxcpm2.tokenizer:read",
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.voxcpm2.prepare:VoxPrepare", next=("encode",)),
        StageSpec(
            "encode",
            "call",
            "rhapsode.models.voxcpm2.encode:VoxEncode",
            next=("talk", "vocode"),
            on_device=True,
            batch=8,
        ),
        StageSpec("talk", "frame", "rhapsode.models.voxcpm2.talker:VoxTalker", stream_to=("vocode",)),
        StageSpec("vocode", "stream", "rhapsode.models.voxcpm2.codec:VoxCodec"),
    ),
)
