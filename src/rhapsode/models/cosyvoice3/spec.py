"""The spec of CosyVoice3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rhapsode.models.base import Layout, ModelSpec, Range, Ranged, StageSpec
from rhapsode.types import Capabilities

ENCODERS = {"reference_tokens": "speech_tokenizer_v3.onnx", "speaker_embedding": "campplus.onnx"}
"""What is found in a recording, as a request may give it, and the network that finds it."""
MOST_REFERENCE_TOKENS = 750
"""Thirty seconds: what the speech tokenizer was made for."""


@dataclass(frozen=True)
class CosyOptions:
    cross_lingual: bool = False
    """Leaves the reference's transcript and its tokens out of the language model's prompt, as for another language.
    Without a transcript it is so anyway."""
    reference_tokens: list[int] | None = None
    """Speech tokens of the reference, 25 a second, in place of those that the checkpoint's speech tokenizer finds."""
    interleave: bool = False
    """Puts text and speech into the prompt in turns, as where text arrives while it is spoken."""
    enforce_min_length: bool = True
    """Lets speech end only after two tokens per token of text; upstream computes this length and does not enforce
    it."""

    def __post_init__(self) -> None:
        tokens = self.reference_tokens
        if tokens is not None and not 0 < len(tokens) <= MOST_REFERENCE_TOKENS:
            raise ValueError(f"reference_tokens must have 1 to {MOST_REFERENCE_TOKENS} tokens, not {len(tokens)}")


@dataclass(frozen=True)
class CosySettings(Ranged):
    llm: Literal["base", "rl"] = "base"
    """Which language model is loaded: `llm.pt`, or `llm.rl.pt`, which was trained further by reinforcement learning."""
    flow_context_s: Annotated[float, Range(10, 300)] = 60.0
    """Seconds of speech that the flow keeps after a reference. A longer text is spoken in parts."""
    mask: Literal["chunk", "full"] = "chunk"
    """What a mel frame can attend to: `chunk`, its own chunk and those before it, which streams; `full`, all frames, as
    upstream does where it does not stream. Speech is then heard once a part is complete."""
    first_tokens: Annotated[int, Range(0, 25)] = 8
    """Tokens of the first chunk of a cloned voice. The reference loses up to a second of its beginning in the flow, so
    that its last chunk lacks as many. 0: it keeps all, and the first chunk is what is left of a second."""


SPEC = ModelSpec(
    name="cosyvoice3",
    summary="nine languages and Chinese dialects, cloning, instructions, [tags]; 24 kHz (Apache-2.0)",
    layouts=(Layout("cosyvoice3.yaml"),),
    sample_rate=24_000,
    frame_hz=25.0,
    published=("FunAudioLLM/Fun-CosyVoice3-0.5B-2512",),
    can=Capabilities(
        clone=True, embedding=True, presets=True, instructions=True, text_stream=True, reference_embedding=True
    ),
    languages=("zh", "en", "ja", "ko", "de", "es", "fr", "it", "ru"),
    describe="rhapsode.models.cosyvoice3.info:describe",
    options=CosyOptions,
    sampling=("temperature", "top_k", "top_p"),
    needs=("cosyvoice3.yaml", "llm*.pt", "flow.pt", "hift.pt"),
    settings=CosySettings,
    requires=("tokenizers",),
    one_voice=True,  # the flow takes its voice with the first prompt
    unread=("CosyVoice-BlankEN/*.safetensors",),
    files=("llm*.pt", "flow.pt", "hift.pt", "spk2info.pt", *ENCODERS.values()),
    pipeline=(
        StageSpec("prepare", "call", "rhapsode.models.cosyvoice3.prepare:CosyPrepare", next=("encode",)),
        StageSpec(
            "encode",
            "call",
            "rhapsode.models.cosyvoice3.encode:CosyEncode",
            next=("talk", "condition"),
            embeds=True,
            workers=2,
        ),
        StageSpec("condition", "call", "rhapsode.models.cosyvoice3.stages:FlowConditioning", next=("flow",)),
        StageSpec(
            "talk",
            "frame",
            "rhapsode.models.cosyvoice3.talker:CosyTalker",
            stream_to=("flow",),
            takes_text=True,
        ),
        StageSpec("flow", "stream", "rhapsode.models.cosyvoice3.stages:flow", stream_to=("vocode",)),
        StageSpec("vocode", "stream", "rhapsode.models.cosyvoice3.stages:vocoder"),
    ),
)
