"""The spec of the dummy family: it uses every feature of the engine, in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rhapsode.models.base import Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities


@dataclass(frozen=True)
class DummyOptions:
    endless: bool = False
    """Never stop: what a runaway looks like."""


@dataclass(frozen=True)
class DummySettings(Ranged):
    lookahead: Annotated[int, Range(0)] = 0
    """How many frames the codec looks ahead."""
    unspoken: str = ""
    """Texts with these words end before their first frame: what empty audio looks like."""
    frame_sleep_s: Annotated[float, Range(0)] = 0.0
    """How long a decode step sleeps, in place of a model's work. It needs `graphs: false`: a trace does not sleep."""


SPEC = ModelSpec(
    name="dummy",
    summary="tones instead of words; for tests and for reading how a family is made",
    layouts=(Layout(where={"architectures": ("RhapsodeDummy",)}),),
    sample_rate=16_000,
    frame_hz=12.5,
    can=Capabilities(presets=True, instructions=True, text_stream=True),
    describe="rhapsode.models.dummy.info:describe",
    voices=("low", "high"),
    options=DummyOptions,
    settings=DummySettings,
    hidden=True,
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.dummy.prompt:DummyPrepare", next=("encode",)),
        StageSpec("encode", "call", "rhapsode.models.dummy.prompt:DummyEncode", next=("talk",), batch=8),
        StageSpec(
            "talk",
            "frame",
            "rhapsode.models.dummy.talker:DummyTalker",
            stream_to=("vocode",),
            takes_text=True,
        ),
        StageSpec("vocode", "stream", "rhapsode.models.dummy.codec:DummyCodec"),
    ),
)
