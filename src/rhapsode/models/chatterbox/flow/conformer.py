"""The encoder of the flow: speech tokens and the speaker become conditions of mel frames."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.chatterbox.flow.sizes import RATE, ConformerSizes, S3FlowSizes
from rhapsode.nn.pre_lookahead import LOOKBEHIND, PreLookahead
from rhapsode.nn.ragged import Ragged
from rhapsode.nn.relative_attention import RelativeAttention, distances

EPS = 1e-12
"""Of the norms of a layer; the other norms have torch's default."""
UP_KERNEL = 5


class ConformerFeedForward(nn.Module):
    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(sizes.hidden, sizes.ffn), nn.Linear(sizes.ffn, sizes.hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(F.silu(self.w_1(x)))


class ConformerLayer(nn.Module):
    """Attention and a feed-forward network, each after a norm. These conformers have no convolution in their layers."""

    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        self.norm_mha = nn.LayerNorm(sizes.hidden, eps=EPS)
        self.self_attn = RelativeAttention(sizes.hidden, sizes.heads)
        self.norm_ff = nn.LayerNorm(sizes.hidden, eps=EPS)
        self.feed_forward = ConformerFeedForward(sizes)

    def forward(self, x: Tensor, encodings: Tensor, hidden_keys: Tensor | None) -> Tensor:
        x = x + self.self_attn(self.norm_mha(x), encodings, hidden_keys)
        return x + self.feed_forward(self.norm_ff(x))


class ConformerInput(nn.Module):
    """A projection before the layers of one rate."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.LayerNorm(hidden))
        self._scale = hidden**0.5

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x) * self._scale


class Conformer(nn.Module):
    """Layers at the rate of tokens, then layers at the rate of mel frames. All positions attend to all."""

    def __init__(self, sizes: ConformerSizes) -> None:
        super().__init__()
        self.lookahead, hidden = sizes.lookahead, sizes.hidden
        self.embed, self.up_embed = ConformerInput(hidden), ConformerInput(hidden)
        self.pre_lookahead_layer = PreLookahead(hidden, hidden, sizes.lookahead)
        self.encoders = nn.ModuleList(ConformerLayer(sizes) for _ in range(sizes.layers))
        self.up_layer = nn.ModuleDict({"conv": nn.Conv1d(hidden, hidden, UP_KERNEL)})
        self.up_encoders = nn.ModuleList(ConformerLayer(sizes) for _ in range(sizes.up_layers))
        self.after_norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, ragged: Ragged) -> Tensor:
        """Maps rows of tokens `[B, T, hidden]` to rows of mel frames `[B, T * RATE, hidden]`."""
        around = (LOOKBEHIND, self.lookahead)
        mask = x.new_ones(x.shape[:2]) if ragged.mask is None else ragged.mask.to(x.dtype)
        x = self.pre_lookahead_layer(F.pad(self.embed(x), (0, 0, *around)), F.pad(mask, around))
        x = _run(self.encoders, x, ragged)
        wide = x.repeat_interleave(RATE, dim=1).transpose(1, 2)
        x = self.up_layer["conv"](F.pad(wide, (UP_KERNEL - 1, 0))).transpose(1, 2)
        return self.after_norm(_run(self.up_encoders, self.up_embed(x), ragged.scaled(RATE)))


def _run(layers: nn.ModuleList, x: Tensor, ragged: Ragged) -> Tensor:
    encodings = distances(x.shape[1], x.shape[2], x)
    hidden_keys = None if ragged.mask is None else ~ragged.mask[:, None, None]
    for layer in layers:
        x = layer(x, encodings, hidden_keys)
    return x


class S3FlowConditions(nn.Module):
    """Everything before the estimator: tables, the conformer and the speaker's layer. They run in full precision."""

    def __init__(self, sizes: S3FlowSizes) -> None:
        super().__init__()
        hidden = sizes.conformer.hidden
        self.input_embedding = nn.Embedding(sizes.vocabulary, hidden)
        self.spk_embed_affine_layer = nn.Linear(sizes.speaker, sizes.mel)
        self.encoder = Conformer(sizes.conformer)
        self.encoder_proj = nn.Linear(hidden, sizes.mel)

    def speaker(self, embedding: Tensor) -> Tensor:
        """Returns the condition of speaker vectors `[B, E]`: [B, mel]."""
        layer = self.spk_embed_affine_layer
        return layer(F.normalize(embedding.to(layer.weight.dtype), dim=1))

    def tokens(self, tokens: Tensor, ragged: Ragged) -> Tensor:
        """Returns the conditions of tokens `[B, T]`: [B, T * RATE, mel]."""
        rows = self.input_embedding(tokens.clamp(0, self.input_embedding.num_embeddings - 1))
        return self.encoder_proj(self.encoder(rows, ragged))
