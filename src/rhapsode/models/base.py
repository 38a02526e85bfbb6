"""Everything a family imports to declare itself: the spec, which is data, prompts, and the protocols of its workers.

Imports no torch.
"""

from rhapsode.models.prompt import Following, GeneratorPrompt, Part, Prompt, Span, TextFeed, TextSink
from rhapsode.models.ranges import Range, Ranged
from rhapsode.models.spec import Companion, Layout, ModelSpec, NoOptions, StageContext, StageSpec
from rhapsode.models.workers import (
    SHORT_CHARS,
    BeginsInPrefill,
    CapturesPrefill,
    CapturesReady,
    Codec,
    Converter,
    Embedder,
    Generator,
    KnowsQuick,
    LimitsRows,
    LooksAhead,
    OpensStream,
    PagesPerBlock,
    PrefillsPrompt,
    Step,
    StreamWorker,
    TakesAllCores,
    TakesText,
    Talker,
    is_short,
)

__all__ = [
    "SHORT_CHARS",
    "BeginsInPrefill",
    "CapturesPrefill",
    "CapturesReady",
    "Codec",
    "Companion",
    "Converter",
    "Embedder",
    "Following",
    "Generator",
    "GeneratorPrompt",
    "KnowsQuick",
    "Layout",
    "LimitsRows",
    "LooksAhead",
    "ModelSpec",
    "NoOptions",
    "OpensStream",
    "PagesPerBlock",
    "Part",
    "PrefillsPrompt",
    "Prompt",
    "Range",
    "Ranged",
    "Span",
    "StageContext",
    "StageSpec",
    "Step",
    "StreamWorker",
    "TakesAllCores",
    "TakesText",
    "Talker",
    "TextFeed",
    "TextSink",
    "is_short",
]
