"""The acoustic half of a checkpoint: what encodes a reference, the flow, and the vocoder."""

from __future__ import annotations

from pathlib import Path

from rhapsode.checkpoints.files import first_of
from rhapsode.checkpoints.weights import Tensors, open_file
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.chatterbox.config import ChatterboxConfig, outline, read
from rhapsode.models.chatterbox.flow.parts import s3_flow_net, s3_flow_worker
from rhapsode.models.chatterbox.flow.prefix import PrefixS3Flow
from rhapsode.models.chatterbox.flow.prompt import S3FlowPrompt
from rhapsode.models.chatterbox.flow.sizes import MOST_PROMPT_TOKENS, RATE
from rhapsode.models.chatterbox.flow.whole import WholeS3Flow
from rhapsode.models.chatterbox.reference.encoders import ORIGINAL, TURBO, ReferenceEncoders
from rhapsode.models.chatterbox.reference.parts import reference_encoders
from rhapsode.models.chatterbox.spec import ChatterboxSettings
from rhapsode.models.chatterbox.t3.prompt import MOST_TOKENS, T3Prompt
from rhapsode.models.chatterbox.variants import Kind
from rhapsode.models.chatterbox.vocoder import S3Vocoder
from rhapsode.models.chatterbox.vocoder_parts import s3_vocoder_net
from rhapsode.models.parts import checkpoint_of

UNHEARD_TOKENS = 1
"""The multilingual model ends with a token of noise: upstream cuts its sound."""


class VoiceForFlow:
    """Makes the flow's prompt of the talker's. The voice of a request does not change: only its first prompt counts."""

    def __init__(self, context: StageContext) -> None:
        pass

    def __call__(self, prompt: T3Prompt) -> S3FlowPrompt:
        voice = prompt.voice
        assert voice is not None
        tokens = voice.prompt_token[:MOST_PROMPT_TOKENS]
        return S3FlowPrompt(tokens, voice.prompt_feat[: RATE * len(tokens)], voice.embedding)

    def traits(self) -> Traits:
        return Traits(is_quick=lambda prompt: True)


def references(config: ChatterboxConfig, context: StageContext) -> ReferenceEncoders:
    """Returns what encodes recordings, as the variant hears them."""
    rules = TURBO if config.kind.is_turbo else ORIGINAL
    return reference_encoders(
        context, lambda: _tensors(context, config.kind, "s3gen"), lambda: _tensors(context, config.kind, "ve"), rules
    )


def flow(context: StageContext) -> WholeS3Flow | PrefixS3Flow:
    """Returns the worker of the flow stage."""
    settings: ChatterboxSettings = context.settings
    kind = read(context.config, checkpoint_of(context), settings.t3).kind
    net = s3_flow_net(context, lambda: _tensors(context, kind, "s3gen"))
    return s3_flow_worker(net, MOST_TOKENS, settings.block_tokens if settings.stream == "prefix" else None)


def vocoder(context: StageContext) -> S3Vocoder:
    """Returns the worker of the vocoder stage."""
    settings: ChatterboxSettings = context.settings
    kind = read(context.config, checkpoint_of(context), settings.t3).kind
    net = s3_vocoder_net(context, lambda: _tensors(context, kind, "s3gen"))
    return S3Vocoder(net, unheard=RATE * UNHEARD_TOKENS if kind is Kind.MULTILINGUAL else 0)


def _tensors(context: StageContext, kind: Kind, name: str) -> Tensors:
    folder = checkpoint_of(context)
    return outline(context.config, folder, name) if context.config else open_file(sound_file(folder, name, kind))


def sound_file(folder: Path, name: str, kind: Kind) -> Path:
    """Returns the file of the acoustic half, `s3gen`, or of the voice encoder, `ve`, that belongs to a variant.

    Upstream reads a pickle for the multilingual model, and a safetensors file of the same network for the others.
    """
    stem = "s3gen_meanflow" if name == "s3gen" and kind.is_turbo else name
    files = (f"{stem}.safetensors", f"{stem}.pt")
    return first_of(folder, *(reversed(files) if kind is Kind.MULTILINGUAL else files))
