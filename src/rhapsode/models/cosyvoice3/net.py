"""The language model: two tables of embeddings, a Qwen2 body, and a head over speech tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.cosyvoice3.config import CosyConfig
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.linear import fused_linear
from rhapsode.nn.rope import RopeConfig

NAMES = {
    "body.": "llm.model.model.",
    "text_embedding.": "llm.model.model.embed_tokens.",
    "head.": "llm_decoder.",
}
"""What the checkpoint calls the tensors of this network."""
UNUSED = ("llm.model.lm_head.weight",)


class CosyNet(Derived):
    """The language model. One range of ids has the text tokens and, from `speech_start` on, the speech tokens."""

    table: Tensor  # [text vocabulary + speech rows, hidden], once derived

    def __init__(self, config: CosyConfig) -> None:
        super().__init__()
        layers = config.layers
        self.speech_start = layers.vocab_size
        rope = RopeConfig(layers.head_dim, layers.rope_theta)
        shape = DecoderConfig.of(layers, layers.head_dim, rope, eps=layers.rms_norm_eps, attention_bias=True)
        self.body = DecoderStack(shape)
        self.text_embedding = nn.Embedding(layers.vocab_size, layers.hidden_size)
        self.speech_embedding = nn.Embedding(config.speech_rows, layers.hidden_size)
        self.head = nn.Linear(layers.hidden_size, config.speech_rows, bias=False)
        self.register_buffer("table", None, persistent=False)

    def derive(self) -> None:
        """Joins the two tables, so that a prompt's rows are one lookup."""
        if hasattr(self, "text_embedding"):
            self.table = torch.cat((self.text_embedding.weight, self.speech_embedding.weight))
            del self.text_embedding, self.speech_embedding

    def embed(self, ids: Tensor) -> Tensor:
        """Embeds the rows of a prompt, `[...]` to [..., hidden]."""
        return F.embedding(ids, self.table)

    def embed_speech(self, tokens: Tensor) -> Tensor:
        """Embeds speech tokens, `[...]` to [..., hidden]."""
        return F.embedding(tokens + self.speech_start, self.table)

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits of the next speech token, `[B, speech rows]`."""
        return fused_linear(hidden, self.head.weight)
