"""The talker's network: embeddings, backbone, head and predictor, with the checkpoint's names."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.qwen3_tts.config import QwenConfig
from rhapsode.models.qwen3_tts.predictor import Predictor, layers
from rhapsode.nn.decoder import DecoderStack
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.embedding import frame_sum
from rhapsode.nn.packed import packed_stack

_ROWS = 8192  # rows of the text table that are projected at a time, to bound memory


class TextProjection(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(inputs, inputs)
        self.linear_fc2 = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(F.silu(self.linear_fc1(x)))


class Backbone(DecoderStack):
    def __init__(self, config: QwenConfig) -> None:
        super().__init__(layers(config.talker))
        self.codec_embedding = nn.Embedding(config.talker.vocab_size, config.talker.hidden_size)
        self.text_embedding = nn.Embedding(config.tokens.text_vocab_size, config.tokens.text_hidden_size)


class TalkerNet(Derived):
    text_table: Tensor  # [text vocabulary, hidden], once derived

    def __init__(self, config: QwenConfig) -> None:
        super().__init__()
        hidden = config.talker.hidden_size
        self.model = Backbone(config)
        self.text_projection = TextProjection(config.tokens.text_hidden_size, hidden)
        self.codec_head = nn.Linear(hidden, config.talker.vocab_size, bias=False)
        self.code_predictor = Predictor(config.predictor, config.groups - 1, hidden)
        self.register_buffer("text_table", None, persistent=False)

    def derive(self) -> None:
        """Projects every text embedding once, and frees the original table and the projection."""
        if hasattr(self, "text_projection"):
            table = self.model.text_embedding.weight
            self.text_table = torch.cat([self.text_projection(rows) for rows in table.split(_ROWS)])
            del self.model.text_embedding, self.text_projection

    def pack(self) -> None:
        """Packs the weights of decode steps for the C kernels of a CPU, where they support them."""
        self.model.program = packed_stack(self.model)
        self.code_predictor.pack()

    def text(self, ids: Tensor) -> Tensor:
        """Embeds text `ids [...]`: [..., hidden]; a negative id gives zeros."""
        return F.embedding(ids.clamp(min=0), self.text_table) * (ids >= 0)[..., None]

    def codec(self, ids: Tensor) -> Tensor:
        """Sums the embeddings of the codes `ids [..., G]`: [..., hidden]; a negative id adds nothing."""
        others = self.code_predictor.model.codec_embedding.weight
        summed = frame_sum(ids.view(-1, ids.shape[-1]), self.model.codec_embedding.weight, others)
        return summed.view(*ids.shape[:-1], -1)
