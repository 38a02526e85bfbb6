"""Everything a family imports to declare itself: the spec, which is data, prompts, and the protocols of its workers.

Imports no torch.
"""

from rhapsode.models.prompt import Following, GeneratorPrompt, Measured, Part, Prompt, Span, TextFeed, TextSink
from rhapsode.models.spec import SOURCES, Companion, Layout, ModelSpec, NoOptions, StageContext, StageSpec
from rhapsode.models.traits import TRAITS_OF, BlockPages, Traits, traits_of
from rhapsode.models.workers import (
    SHORT_CHARS,
    Burst,
    Codec,
    Converter,
    Generator,
    Measurement,
    Step,
    StreamWorker,
    Talker,
    is_short,
)
from rhapsode.ranges import Range, Ranged

__all__ = [
    "SHORT_CHARS",
    "SOURCES",
    "TRAITS_OF",
    "BlockPages",
    "Burst",
    "Codec",
    "Companion",
    "Converter",
    "Following",
    "Generator",
    "GeneratorPrompt",
    "Layout",
    "Measured",
    "Measurement",
    "ModelSpec",
    "NoOptions",
    "Part",
    "Prompt",
    "Range",
    "Ranged",
    "Span",
    "StageContext",
    "StageSpec",
    "Step",
    "StreamWorker",
    "Talker",
    "TextFeed",
    "TextSink",
    "Traits",
    "is_short",
    "traits_of",
]
