"""The talker of a checkpoint, built and filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from rhapsode.checkpoints.weights import Tensors, open_weights
from rhapsode.models.base import StageContext
from rhapsode.models.higgs.codec.names import V3_PREFIX
from rhapsode.models.higgs.config import HiggsConfig
from rhapsode.models.higgs.halves import JoinedHalves
from rhapsode.models.higgs.net import HiggsNet
from rhapsode.models.parts import checkpoint_of, fill

# What checkpoints call the tensors of `HiggsNet`, and which other tensors they may hold: the head for text is never
# read, and v3 may hold a head for audio although it is tied.
_V2_NAMES = {
    "body.": "model.",
    "text_table.": "model.embed_tokens.",
    "code_table.": "model.embed_audio_tokens.embed_audio_tokens.",
    "head.": "audio_lm_head.",
}
_V2_UNUSED = ("text_lm_head.*",)
_ORIGINAL_NAMES = {
    "body.": "",
    "text_table.": "embed_tokens.",
    "code_table.": "audio_codebook_embeddings.",
    "head.": "audio_decoder_proj.audio_lm_head.",
}
_ORIGINAL_UNUSED = (
    "audio_decoder_proj.text_lm_head.*",
    "audio_codebook_weights",
    "rotary_emb.*",
    "*.rotary_emb.*",
    "audio_tower.*",
)
_V3_NAMES = {
    "text_table.": "tied.embedding.text_embedding.",
    "code_table.": "tied.embedding.modality_embeddings.0.embedding.",
    "head.": "tied.head.modality_heads.0.",
}
_V3_UNUSED = ("tied.head.text_head.*", f"{V3_PREFIX}*")
_V3_TIED = "tied.head.modality_heads.0.weight"


def talker(config: HiggsConfig, context: StageContext) -> HiggsNet:
    """Returns the network. In bfloat16, v3's rotary tables are rounded as they were in training."""
    dtype: torch.dtype = getattr(torch, context.dtype)
    rounded = dtype == torch.bfloat16 and config.generation == 3
    names, unused = _layout(config)

    def source() -> Tensors:
        stored = open_weights(checkpoint_of(context))
        return JoinedHalves(stored) if config.original else stored

    return fill(lambda: HiggsNet(config, rounded), context, source, names=names, ignore=unused, dtype=dtype)


def _layout(config: HiggsConfig) -> tuple[Mapping[str, str], Sequence[str]]:
    """Returns the names of a checkpoint's tensors, and patterns of other tensors that it may hold."""
    if config.generation == 3:
        return _V3_NAMES, (*_V3_UNUSED, _V3_TIED) if config.tied else _V3_UNUSED
    return (_ORIGINAL_NAMES, _ORIGINAL_UNUSED) if config.original else (_V2_NAMES, _V2_UNUSED)
