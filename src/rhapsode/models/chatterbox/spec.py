"""The spec of Chatterbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rhapsode.models.base import Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities

PRESET = "builtin"
"""The name of the voice in a checkpoint's `conds.pt`; upstream has no name for it."""


PATTERNS = ("t3_*.safetensors", "t3_*.pt")
"""The weight files by which a checkpoint is recognised."""


@dataclass(frozen=True)
class ChatterboxOptions(Ranged):
    exaggeration: Annotated[float | None, Range(0, 5)] = None
    """How much emotion is in the voice: 0.5, the default, is neutral, and upstream's demonstrations go from 0.25 to 2.
    Turbo and Nano have none."""
    cfg_weight: Annotated[float | None, Range(0, 5)] = None
    """How strongly speech is guided by the text: by default 0.5. 0 is no guidance; lower values make a fast reference
    slower. Turbo and Nano have none."""
    first_piece_chars: Annotated[int | None, Range(20, 300)] = None
    """A first sentence with more letters than this is cut after a clause, so that it is heard sooner."""
    reference_s: Annotated[float | None, Range(1, 10)] = None
    """How many seconds of the reference the flow hears; by default up to 10. It reads them again with every sentence,
    so fewer are faster and resemble the voice less."""
    lenient_text: bool = False
    """Reads Japanese, Chinese, Hebrew and Russian as they are written where the package that these need is not
    installed, as upstream does. Without it, such a request is refused."""


@dataclass(frozen=True)
class ChatterboxSettings(Ranged):
    t3: str = "auto"
    """Which T3 of the checkpoint is loaded: `original`, `multilingual`, `turbo`, `nano`, or the name of its file, such
    as `t3_mtl23ls_v3`. `auto` takes the first of these that the checkpoint has; of two multilingual ones, `v2`."""
    stream: Literal["whole", "prefix"] = "whole"
    """What the flow makes at once: `whole`, a sentence in one pass, as upstream does; `prefix`, the first tokens of a
    sentence as soon as there are some, and each further block in a pass over the sentence so far. That is heard sooner,
    costs more, and is another computation than upstream's."""
    block_tokens: Annotated[int, Range(4, 250)] = 25
    """With `stream: prefix`, tokens of a block, 25 a second."""
    guidance: bool = True
    """Whether requests can set `cfg_weight`. Without it each request has one sequence in place of two, half the memory
    and half the work; Turbo and Nano have no guidance anyway."""


_PACKAGE = "rhapsode.models.chatterbox"

SPEC = ModelSpec(
    name="chatterbox",
    summary="English or 23 languages, cloning, exaggeration; Turbo with [tags]; 24 kHz (MIT)",
    layouts=(
        *(Layout(pattern) for pattern in PATTERNS),
        Layout("chatterbox.json", keys=("kind", "tensors"), on_hub=False),
    ),
    sample_rate=24_000,
    frame_hz=25.0,
    published=("ResembleAI/chatterbox", "ResembleAI/chatterbox-turbo", "ResembleAI/chatterbox-nano"),
    can=Capabilities(presets=True, clone=True, text_stream=True),
    describe=f"{_PACKAGE}.info:describe",
    settings_decide=True,
    options=ChatterboxOptions,
    settings=ChatterboxSettings,
    needs=("t3_*.safetensors|t3_*.pt", "s3gen*.safetensors|s3gen.pt", "ve.safetensors|ve.pt"),
    files=("conds.pt", "s3gen.pt", "ve.pt"),
    pipeline=(
        StageSpec("prepare", "call", f"{_PACKAGE}.prepare:ChatterboxPrepare", next=("encode",), workers=2),
        StageSpec(
            "encode",
            "call",
            f"{_PACKAGE}.encode:ChatterboxEncode",
            next=("talk", "condition"),
            on_device=True,
            batch=8,
        ),
        StageSpec("condition", "call", f"{_PACKAGE}.sound:VoiceForFlow", next=("flow",)),
        StageSpec("talk", "frame", f"{_PACKAGE}.t3.talker:ChatterboxTalker", stream_to=("flow",), takes_text=True),
        StageSpec("flow", "stream", f"{_PACKAGE}.sound:flow", stream_to=("vocode",)),
        StageSpec("vocode", "stream", f"{_PACKAGE}.sound:vocoder"),
    ),
)
