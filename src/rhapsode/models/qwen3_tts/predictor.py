"""The code predictor: the other fifteen codes of a frame, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.qwen3_tts.config import LayersConfig
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.depth import DepthStack
from rhapsode.nn.rope import RopeConfig


def layers(config: LayersConfig) -> DecoderConfig:
    """Qwen3's layers, in this house's words."""
    return DecoderConfig(
        hidden=config.hidden_size,
        ffn=config.intermediate_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        rope=RopeConfig(config.head_dim, config.rope_theta),
        qk_norm=True,
        eps=config.rms_norm_eps,
        attention_bias=config.attention_bias,
        output_bias=config.attention_bias,
    )


class Tables(nn.Module):
    """One matrix per codebook, which the checkpoint has as a list."""

    def __init__(self, books: int, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(books, rows, columns))


class PredictorStack(DepthStack):
    def __init__(self, config: LayersConfig, books: int, width: int) -> None:
        super().__init__(layers(config), most=books + 1)
        self.codec_embedding = Tables(books, config.vocab_size, width)


class Predictor(nn.Module):
    """Its embeddings are as wide as the talker; its layers may be narrower."""

    def __init__(self, config: LayersConfig, books: int, width: int) -> None:
        super().__init__()
        self.books, self.codes = books, config.vocab_size
        self.model = PredictorStack(config, books, width)
        self.lm_head = Tables(books, config.vocab_size, config.hidden_size)
        narrower = config.hidden_size != width
        self.small_to_mtp_projection = nn.Linear(width, config.hidden_size) if narrower else nn.Identity()

    def forward(self, hidden: Tensor, first: Tensor, choose: Callable[[int, Tensor], Tensor]) -> Tensor:
        """`hidden` and the first code's embedding, both [B, width], to codes [B, books]; `choose` draws from logits."""
        memory = self.model.begin(hidden.shape[0], hidden.dtype, hidden.device)
        x = torch.stack((hidden, first), dim=1)
        codes: list[Tensor] = []
        for book in range(self.books):
            state = self.model.advance(self.small_to_mtp_projection(x), memory)[:, -1]
            codes.append(choose(book, self.logits(state, book)))
            x = F.embedding(codes[-1], self.model.codec_embedding.weight[book])[:, None]
        return torch.stack(codes, dim=1)

    def logits(self, hidden: Tensor, book: int) -> Tensor:
        """`hidden [B, predictor width]` to [B, codes]."""
        return F.linear(hidden, self.lm_head.weight[book]).float()

    def embed(self, codes: Tensor) -> Tensor:
        """The embeddings of `codes [..., books]`, [..., books, width]."""
        first_row = torch.arange(0, self.books * self.codes, self.codes, device=codes.device)
        return F.embedding(codes + first_row, self.model.codec_embedding.weight.flatten(0, 1))
