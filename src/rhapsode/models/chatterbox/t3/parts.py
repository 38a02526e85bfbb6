"""T3 and what encodes a voice for it, built and filled with the tensors of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

from rhapsode.checkpoints.transposed import Transposed
from rhapsode.checkpoints.weights import Tensors, open_file
from rhapsode.models.base import StageContext
from rhapsode.models.chatterbox.config import ChatterboxConfig
from rhapsode.models.chatterbox.t3.conditioner import Conditioner
from rhapsode.models.chatterbox.t3.net import T3
from rhapsode.models.chatterbox.t3.sizes import T3Sizes
from rhapsode.models.parts import fill

GPT2_NAMES = {
    ".layers.": ".h.",
    ".input_layernorm.": ".ln_1.",
    ".post_attention_layernorm.": ".ln_2.",
    ".self_attn.qkv": ".attn.c_attn",
    ".self_attn.o_proj.": ".attn.c_proj.",
    ".mlp.fc1.": ".mlp.c_fc.",
    ".mlp.fc2.": ".mlp.c_proj.",
    "tfmr.norm.": "tfmr.ln_f.",
}
"""What the checkpoint calls the tensors of GPT-2's layers."""
TRANSPOSED = ("tfmr.h.*.attn.*", "tfmr.h.*.mlp.*")
UNUSED = ("cond_enc.*", "text_head.*", "tfmr.embed_tokens.weight", "tfmr.wte.weight")
"""Dead tensors, and those that the conditioner reads."""
NOT_OF_VOICE = ("tfmr.*", "text_*", "speech_head.*")


def talker(config: ChatterboxConfig, context: StageContext) -> T3:
    """Returns the T3 that the deployment chooses."""
    sizes = config.t3
    return fill(
        lambda: T3(sizes),
        context,
        lambda: _tensors(config.file, sizes),
        names=GPT2_NAMES if sizes.gpt2 else None,
        ignore=UNUSED,
        dtype=getattr(torch, context.dtype),
    )


def conditioner(config: ChatterboxConfig, context: StageContext) -> Conditioner:
    """Returns the layers that encode a voice for this T3, in full precision."""
    sizes = config.t3
    ignore = (*NOT_OF_VOICE, "speech_emb.*") if sizes.gpt2 else NOT_OF_VOICE
    return fill(lambda: Conditioner(sizes), context, lambda: open_file(config.file), ignore=ignore)


def _tensors(file: Path, sizes: T3Sizes) -> Tensors:
    return Transposed(open_file(file), *TRANSPOSED) if sizes.gpt2 else open_file(file)
