"""The talker's network: a language model over text and rows of codes, and one head for all codebooks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.higgs.config import HiggsConfig
from rhapsode.models.higgs.prompt import TEXT_CODE
from rhapsode.nn.attention import AttentionBackend
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.delay import DelayPattern
from rhapsode.nn.kernels.embedding import frame_sum
from rhapsode.nn.linear import normed_linear
from rhapsode.nn.rope import Llama3Scaling, RopeConfig
from rhapsode.nn.twin import TwinStack


def pattern_of(config: HiggsConfig) -> DelayPattern:
    """Returns the delay pattern of v2 or v3: how it lays out the rows of codes and ends them."""
    if config.generation == 2:
        return DelayPattern(config.books, config.codes, framed=True, ends_with="any codebook", past_end="clip")
    return DelayPattern(config.books, config.codes, framed=False, ends_with="codebook 0", past_end="zero")


def layers(config: HiggsConfig, rounded_rope: bool) -> DecoderConfig:
    """Returns the shape of the language model; v3 is a Qwen3, which norms queries and keys."""
    body, rope = config.body, config.rope
    scaling = Llama3Scaling(
        rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.original_max_position_embeddings
    )
    llama3 = scaling if rope.rope_type == "llama3" else None
    return DecoderConfig.of(
        body,
        body.head_dim,
        RopeConfig(body.head_dim, config.theta, llama3=llama3, rounded=rounded_rope),
        qk_norm=config.generation == 3,
        eps=body.rms_norm_eps,
        attention_bias=body.attention_bias,
    )


class HiggsNet(nn.Module):
    """Embeds positions, runs the body, and computes the logits of the next row."""

    def __init__(self, config: HiggsConfig, rounded_rope: bool = False) -> None:
        super().__init__()
        self._books, self._ids = config.books, config.codes + 2
        shape = layers(config, rounded_rope)
        self.body = TwinStack(shape) if config.generation == 2 else DecoderStack(shape)
        self.text_table = nn.Embedding(config.body.vocab_size, shape.hidden)
        self.code_table = nn.Embedding(config.books * self._ids, shape.hidden)
        self.head = None if config.tied else nn.Linear(shape.hidden, config.books * self._ids, bias=False)

    def embed(self, columns: Tensor) -> Tensor:
        """Embeds prompt positions `[..., 1 + books]`, a token and codes each: [..., hidden].

        An audio position is the sum of its codes' embeddings; its token is not used.
        """
        token, codes = columns[..., 0], columns[..., 1:]
        first_row = torch.arange(0, self._books * self._ids, self._ids, device=columns.device)
        audio = F.embedding(codes.clamp(min=0) + first_row, self.code_table.weight).sum(-2)
        return torch.where(is_audio(columns)[..., None], audio, self.text_table(token.clamp(min=0)))

    def embed_row(self, row: Tensor) -> Tensor:
        """Embeds generated rows `[B, books]` the same way, in one kernel: [B, hidden]."""
        tables = self.code_table.weight.view(self._books, self._ids, -1)
        return frame_sum(row, tables[0], tables[1:])

    def run(self, x: Tensor, positions: Tensor, backend: AttentionBackend, audio: Tensor | None = None) -> Tensor:
        """Runs the body over `x [B, T, hidden]`, without its final norm. `audio [B, T]` is a mask of the audio
        positions; `None`: all of them are audio."""
        rotary = self.body.rotary(positions, x.dtype)
        if isinstance(self.body, TwinStack):
            return self.body.run_layers(x, rotary, backend, audio)
        return self.body.run_layers(x, rotary, backend)

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits `[B * books, ids]` after `hidden [B, hidden]`, which is not normed yet."""
        weight = self.code_table.weight if self.head is None else self.head.weight
        return normed_linear(hidden, self.body.norm, weight).view(-1, self._ids)


def is_audio(columns: Tensor) -> Tensor:
    """Returns which prompt positions `[..., 1 + books]` are audio."""
    return columns[..., 1] > TEXT_CODE
