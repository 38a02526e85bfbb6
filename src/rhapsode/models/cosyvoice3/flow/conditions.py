"""The conditions of the flow: the tokens with their look-ahead, and the speaker."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.cosyvoice3.flow.settings import FlowSettings
from rhapsode.nn.pre_lookahead import PreLookahead


def repeated(x: Tensor, times: int) -> Tensor:
    """Returns `x [B, n, ...]` with each entry repeated `times` times in a row."""
    return x.unsqueeze(2).expand(-1, -1, times, *x.shape[2:]).flatten(1, 2)


class FlowConditions(nn.Module):
    """The layers that embed the tokens and the speaker. They are small and run in full precision."""

    def __init__(self, settings: FlowSettings) -> None:
        super().__init__()
        self.lookahead = settings.pre_lookahead_len
        self.rate = settings.token_mel_ratio
        self.input_embedding = nn.Embedding(settings.vocab_size, settings.output_size)
        self.spk_embed_affine_layer = nn.Linear(settings.spk_embed_dim, settings.output_size)
        self.pre_lookahead_layer = PreLookahead(settings.output_size, settings.lookahead_channels, self.lookahead)

    def speaker(self, embedding: Tensor) -> Tensor:
        """Returns the condition of speaker vectors `[B, E]`: [B, mel]."""
        layer = self.spk_embed_affine_layer
        return layer(F.normalize(embedding.to(layer.weight.dtype), dim=1))

    def tokens(self, tokens: Tensor, known: Tensor) -> Tensor:
        """Returns the conditions, `[B, n * rate, mel]`, of `n` tokens with their context, `[B, behind + n + ahead]`.

        Tokens that are not `known` do not exist: they are before the start or after the end.
        """
        table = self.input_embedding
        rows = self.pre_lookahead_layer(table(tokens.clamp(0, table.num_embeddings - 1)), known)
        return repeated(rows, self.rate)
