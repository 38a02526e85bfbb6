"""ALBERT over phonemes: one layer, applied again and again, with attention in both directions."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.kokoro.config import AlbertConfig
from rhapsode.nn.ragged import Ragged

NAMES = {
    "bert.layer.": "bert.encoder.albert_layer_groups.0.albert_layers.0.",
    "bert.project.": "bert.encoder.embedding_hidden_mapping_in.",
}
"""Parts of tensor names here, and in a checkpoint."""


class AlbertEmbeddings(nn.Module):
    def __init__(self, config: AlbertConfig, tokens: int) -> None:
        super().__init__()
        size = config.embedding_size
        self.word_embeddings = nn.Embedding(tokens, size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)

    def forward(self, ids: Tensor) -> Tensor:
        places = self.position_embeddings.weight[: ids.shape[1]]
        return self.LayerNorm(self.word_embeddings(ids) + places + self.token_type_embeddings.weight[0])


class AlbertAttention(nn.Module):
    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.heads = config.num_attention_heads
        self.query, self.key, self.value, self.dense = (nn.Linear(size, size) for _ in range(4))
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, ragged: Ragged) -> Tensor:
        query, key, value = (
            layer(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        mask = None if ragged.mask is None else ragged.mask[:, None, None]
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.LayerNorm(x + self.dense(attended.transpose(1, 2).flatten(2)))


class AlbertLayer(nn.Module):
    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.attention = AlbertAttention(config)
        self.ffn = nn.Linear(config.hidden_size, config.intermediate_size)
        self.ffn_output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.full_layer_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, ragged: Ragged) -> Tensor:
        x = self.attention(x, ragged)
        return self.full_layer_layer_norm(x + self.ffn_output(F.gelu(self.ffn(x), approximate="tanh")))


class Albert(nn.Module):
    """Maps ids `[B, P]` to `[B, P, hidden]`. All layers are one."""

    def __init__(self, config: AlbertConfig, tokens: int) -> None:
        super().__init__()
        self.embeddings = AlbertEmbeddings(config, tokens)
        self.project = nn.Linear(config.embedding_size, config.hidden_size)
        self.layer = AlbertLayer(config)
        self.layers = config.num_hidden_layers

    def forward(self, ids: Tensor, ragged: Ragged) -> Tensor:
        x: Tensor = self.project(self.embeddings(ids))
        for _ in range(self.layers):
            x = self.layer(x, ragged)
        return x
