"""The talker and its predictor for training: the serving network, in one pass over whole prompts."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lines import CLONED, IGNORED, Batch
from rhapsode.models.qwen3_tts.config import QwenConfig
from rhapsode.models.qwen3_tts.net import TalkerNet
from rhapsode.nn.decoder import DecoderLayer, DecoderStack
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.norm import RMSNorm

MOST_CONFUSED = 0.2
"""Of the frames a prompt holds, in every other prompt: it must go on from frames that are not quite right."""


class Losses(NamedTuple):
    first: Tensor
    rest: Tensor
    hits: Tensor
    """Share of first codes that were thought most likely."""


class TrainableTalker(nn.Module):
    def __init__(self, config: QwenConfig, compiled: bool = False, dropout: float = 0.1) -> None:
        """`compiled`: layers are compiled by PyTorch, one program for all of them."""
        super().__init__()
        self._dropout = dropout
        self.net = TalkerNet(config)
        self._layer = torch.compile(_layer, dynamic=True) if compiled else _layer
        self._codes = config.predictor.vocab_size
        _initialise(self.net)

    def forward(self, batch: Batch, predicted: int, predictor_only: bool = False) -> Losses:
        """`predicted` is the number of random frames for which the predictor's codes are trained too.

        `predictor_only`: the talker is as it is served.
        """
        rows = self._confused(batch.rows) if self.training else batch.rows
        first = batch.first.flatten()
        with torch.set_grad_enabled(torch.is_grad_enabled() and not predictor_only):
            hidden = self.hidden(rows, batch.speakers, 0.0 if predictor_only else self._dropout).flatten(0, 1)
            logits = self.net.codec_head(hidden).float()
            loss = F.cross_entropy(logits, first, ignore_index=IGNORED)
        asked = first != IGNORED
        hits = ((logits.argmax(-1) == first) & asked).sum() / asked.sum()
        chosen = some((first >= 0) & (first < self._codes), predicted)
        frames = batch.frames.flatten(0, 1)
        return Losses(loss, self.rest(hidden.index_select(0, chosen), frames.index_select(0, chosen)), hits)

    def predictor_weights(self) -> list[nn.Parameter]:
        """Returns what the predictor alone uses: its embeddings of codes are the talker's, too."""
        predictor = self.net.code_predictor
        parts = (predictor.model.layers, predictor.model.norm, predictor.small_to_mtp_projection, predictor.lm_head)
        return [weight for part in parts for weight in part.parameters()]

    def hidden(self, rows: Tensor, speakers: Tensor, dropout: float = 0.0) -> Tensor:
        """Returns the talker's hidden states for `rows [B, T, 1 + G]` and `speakers [B, hidden]`."""
        return self.through(self.net.model, self.embedded(rows, speakers), dropout)

    def embedded(self, rows: Tensor, speakers: Tensor) -> Tensor:
        net = self.net
        text = net.text_projection(net.model.text_embedding(rows[..., 0]))
        cloned = (rows[..., 1] == CLONED)[..., None] * speakers[:, None].to(text.dtype)
        return text + net.codec(rows[..., 1:]) + cloned

    def rest(self, hidden: Tensor, frames: Tensor) -> Tensor:
        """Returns the predictor's loss for `frames [N, G]` that follow `hidden [N, width]`."""
        predictor = self.net.code_predictor
        first = F.embedding(frames[:, :1], self.net.model.codec_embedding.weight)
        books = torch.arange(frames.shape[1] - 1, device=frames.device)
        others = predictor.model.codec_embedding.weight[books, frames[:, 1:]]  # [N, G - 1, width]
        seen = torch.cat([hidden[:, None], first, others], 1)[:, :-1]  # the last code is only asked for
        state = self.through(predictor.model, predictor.small_to_mtp_projection(seen), self._dropout)[:, 1:]
        logits = torch.einsum("nbh,bkh->nbk", state, predictor.lm_head.weight.to(state.dtype))
        return F.cross_entropy(logits.float().flatten(0, 1), frames[:, 1:].flatten())

    def through(self, stack: DecoderStack, x: Tensor, dropout: float = 0.0) -> Tensor:
        rotary = stack.rotary(torch.arange(x.shape[1], device=x.device)[None], x.dtype)
        for layer in stack.layers:
            x = self._layer(layer, x, rotary, dropout if self.training else 0.0)
        return stack.norm(x)

    def _confused(self, rows: Tensor) -> Tensor:
        """Replaces some frames by random ones."""
        size, device = rows.shape[:2], rows.device
        often = torch.rand(size[0], 1, device=device) * 2 - 1  # none in half of the prompts
        struck = (torch.rand(size, device=device) < often * MOST_CONFUSED) & (rows[..., -1] >= 0)
        others = torch.randint(self._codes, (*size, rows.shape[-1] - 1), device=device)
        text, codes = rows[..., :1], rows[..., 1:]
        return torch.cat([text, torch.where(struck[..., None], others, codes)], -1)


def _layer(layer: DecoderLayer, x: Tensor, rotary: RotaryAngles, dropout: float) -> Tensor:
    """A layer over whole prompts `x [B, T, hidden]`, in plain PyTorch, so that it can be compiled."""
    attention, mlp = layer.self_attn, layer.mlp
    assert attention.q_norm is not None and attention.k_norm is not None  # noqa: PT018
    qkv = F.linear(normed(x, layer.input_layernorm), attention.qkv.weight, attention.qkv.bias)
    query, key, value = (part.unflatten(-1, (-1, attention.head_dim)) for part in qkv.split(attention.qkv.sizes, -1))
    query, key = rotary.rotate(normed(query, attention.q_norm)), rotary.rotate(normed(key, attention.k_norm))
    heads = [part.to(value.dtype).transpose(1, 2) for part in (query, key, value)]
    attended = F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)
    inner = x + F.linear(attended, attention.o_proj.weight)
    gate, up = F.linear(normed(inner, layer.post_attention_layernorm), mlp.gate_up.weight).chunk(2, -1)
    outer = inner + F.linear(F.silu(gate) * up, mlp.down_proj.weight)
    return x + F.dropout(outer - x, dropout) if dropout else outer


def normed(x: Tensor, norm: RMSNorm) -> Tensor:
    return F.rms_norm(x, norm.weight.shape, norm.weight, norm.eps)


def some(of: Tensor, count: int) -> Tensor:
    """Returns `count` random indices of true values, with repeats where there are fewer."""
    return torch.multinomial(of.float(), count, replacement=True)


def _initialise(net: TalkerNet) -> None:
    deep = (2 * len(net.model.layers)) ** -0.5
    for name, weight in net.named_parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.02 * (deep if name.endswith(("o_proj.weight", "down_proj.weight")) else 1))
    nn.init.normal_(net.model.text_embedding.weight, std=0.3)
    for linear in (net.text_projection.linear_fc1, net.text_projection.linear_fc2):
        nn.init.normal_(linear.weight, std=0.06)
        nn.init.zeros_(linear.bias)
    nn.init.zeros_(net.code_predictor.small_to_mtp_projection.bias)
