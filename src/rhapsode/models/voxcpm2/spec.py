"""VoxCPM2, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rhapsode.models.base import ModelSpec, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class VoxOptions:
    cfg_value: float = 2.0
    """How strongly speech follows text and voice; 1 is unguided."""
    inference_timesteps: int = 10
    """Euler steps per patch: more are finer and slower. The deployment's `max_timesteps` is the most."""
    min_len: int = 2
    """Patches of 160 ms that must be spoken before the end may come."""
    max_len: int | None = None
    """Patches after which the speech is cut, and said to be."""
    cloning: Literal["reference", "continuation", "both"] | None = None
    """How a single reference is used: as the sound of a voice, as speech to continue (this needs its transcript), or
    both. The default is to continue it where there is a transcript and there are no instructions."""

    def __post_init__(self) -> None:
        if not 0 <= self.cfg_value <= 10:
            raise ValueError("cfg_value must be between 0 and 10")
        if self.inference_timesteps < 1:
            raise ValueError("inference_timesteps must be at least 1")
        if self.min_len < 0:
            raise ValueError("min_len must be 0 or more")
        if self.max_len is not None and self.max_len < 1:
            raise ValueError("max_len must be at least 1")


SPEC = ModelSpec(
    name="voxcpm2",
    summary="thirty languages, cloning, voices by description; no codes but latents, 48 kHz (Apache-2.0)",
    architectures=("voxcpm2",),
    sample_rate=48_000,
    frame_hz=6.25,
    can=Capabilities(clone=True, continuation=True, design=True),
    options=VoxOptions,
    requires=("tokenizers", "safetensors"),
    files=("audiovae.pth",),
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.voxcpm2.prepare:Prepare", next=("encode",), workers=2),
        StageSpec("encode", "call", "rhapsode.models.voxcpm2.encode:Encode", next=("talk", "vocode"), batch=8),
        StageSpec("talk", "frame", "rhapsode.models.voxcpm2.talker:VoxTalker", stream_to=("vocode",)),
        StageSpec("vocode", "stream", "rhapsode.models.voxcpm2.codec:VoxCodec"),
    ),
)
