"""Draws speech for many prompts at once, greedily, as it is served: a captured step over static buffers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from lines import Codes
from rhapsode.checkpoints import qwen2_tokenizer as served
from rhapsode.models.qwen3_tts.config import SUPPRESSED, QwenConfig
from rhapsode.models.qwen3_tts.feed import ROLE, ROLE_TOKENS
from rhapsode.models.qwen3_tts.prompt import PromptBuilder, QwenScript
from rhapsode.models.qwen3_tts.talker import LEAST_TOKENS
from rhapsode.nn.decoder import DecoderLayer
from rhapsode.nn.kernels.rotary import RotaryAngles
from schedule import Captured
from talker import TrainableTalker, normed

CHECKED = 16
"""Steps between two looks at whether all have ended."""


class Asked(NamedTuple):
    """A prompt as it is served."""

    rows: Codes  # [L, 1 + G]: a text id and the codec ids of each position but the last
    last: Codes  # [G], the codec ids of the last position
    rest: list[int]  # a text token for each of the next steps


class Asker:
    """Builds prompts, exactly as they are served."""

    def __init__(self, config: QwenConfig, folder: Path) -> None:
        self._config, self._encode = config, served.read(folder)
        self._builder = PromptBuilder(config)
        self._presets = list(config.tokens.spk_id.values())

    def ask(self, told: str, preset: int, streaming: bool) -> Asked:
        """`told` is what the front end made of the text; `streaming`: the talker reads a token of it per frame."""
        ids = self._encode(ROLE + told)
        script = QwenScript(
            role=[self._config.text.im_start_token_id, *ids[:ROLE_TOKENS]],
            text=ids[ROLE_TOKENS:],
            preset=self._presets[preset],
            non_streaming=not streaming,
        )
        content, last, rest = self._builder.build(script)
        return Asked(content[:, :-1], last, rest)


class Sampler:
    def __init__(self, talker: TrainableTalker, config: QwenConfig, batch: int, prompt: int, frames: int) -> None:
        """Room for `batch` prompts of at most `prompt` positions and `frames` frames."""
        self._talker, self._net, self._config = talker, talker.net, config
        device = next(talker.parameters()).device
        self._batch, self._prompt, self._frames, self._device = batch, prompt, frames, device
        sizes = config.talker
        shape = (sizes.num_hidden_layers, batch, prompt + frames, sizes.num_key_value_heads, sizes.head_dim)
        self._keys, self._values = torch.zeros(shape, device=device), torch.zeros(shape, device=device)

        def integers(*shape: int) -> Tensor:
            return torch.zeros(batch, *shape, dtype=torch.int64, device=device)

        self._position, self._tokens, self._count = integers(), integers(frames), integers()
        self._previous, self._drawn, self._length = integers(config.groups), integers(frames, config.groups), integers()
        self._ended = torch.zeros(batch, dtype=torch.bool, device=device)
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        ids = torch.arange(sizes.vocab_size, device=device)
        self._eos = config.tokens.codec_eos_token_id
        self._is_eos = ids == self._eos
        self._suppressed = (ids >= sizes.vocab_size - SUPPRESSED) & ~self._is_eos
        self._advance = Captured(self._next, device)

    @torch.no_grad()
    def draw(self, asked: list[Asked]) -> list[Codes | None]:
        """Returns the frames `[F, G]` of each prompt; `None` where there is no end."""
        found: list[Codes | None] = []
        for first in range(0, len(asked), self._batch):
            some = asked[first : first + self._batch]
            self._begin(some)
            for step in range(self._frames):
                self._advance()
                if step % CHECKED == CHECKED - 1 and bool(self._ended[: len(some)].all()):
                    break
            drawn, lengths = self._drawn.cpu().numpy(), self._length.tolist()
            ended = self._ended.tolist()
            found += [drawn[i, : lengths[i]].copy() if ended[i] else None for i in range(len(some))]
        return found

    def _begin(self, asked: list[Asked]) -> None:
        longest = max(len(one.rows) for one in asked)
        rows = np.zeros((self._batch, longest, 1 + self._config.groups), np.int64)
        rows[..., 1:] = -1
        tokens = np.zeros((self._batch, self._frames), np.int64)
        counts, lengths = np.zeros(self._batch, np.int64), np.ones(self._batch, np.int64)
        previous = np.zeros((self._batch, self._config.groups), np.int64)
        for i, one in enumerate(asked):
            rows[i, : len(one.rows)], lengths[i], previous[i] = one.rows, len(one.rows), one.last
            rest = one.rest[: self._frames]
            tokens[i, : len(rest)], counts[i] = rest, len(rest)
        self._prefill(self._put(rows))
        pairs = (
            (self._position, lengths),
            (self._tokens, tokens),
            (self._count, counts),
            (self._previous, previous),
        )
        for buffer, values in pairs:
            buffer.copy_(self._put(values))
        self._length.zero_()
        self._step.zero_()
        self._ended.zero_()
        self._ended[len(asked) :] = True

    def _put(self, values: NDArray) -> Tensor:
        return torch.from_numpy(values).to(self._device)

    def _prefill(self, rows: Tensor) -> None:
        stack, length = self._net.model, rows.shape[1]
        x = self._talker.embedded(rows, torch.zeros(len(rows), self._config.talker.hidden_size, device=self._device))
        rotary = stack.rotary(torch.arange(length, device=x.device)[None], x.dtype)
        for layer, keys, values in zip(stack.layers, self._keys, self._values, strict=True):
            query, key, value = _heads(layer, x, rotary)
            keys[:, :length], values[:, :length] = key, value
            x = _rest_of(layer, x, _attended(query, key, value))

    def _next(self) -> None:
        net, stack, every = self._net, self._net.model, torch.arange(self._batch, device=self._device)
        at = self._step.clamp(max=self._frames - 1)
        token = self._tokens.index_select(1, at[None])[:, 0]
        token = torch.where(self._step < self._count, token, self._config.text.tts_pad_token_id)
        text = net.text_projection(net.model.text_embedding(token))
        x = (text + net.codec(self._previous))[:, None]
        rotary = stack.rotary(self._position[:, None], x.dtype)
        seen = torch.arange(self._keys.shape[2], device=self._device) <= self._position[:, None]
        for layer, keys, values in zip(stack.layers, self._keys, self._values, strict=True):
            query, key, value = _heads(layer, x, rotary)
            keys[every, self._position], values[every, self._position] = key[:, 0], value[:, 0]
            x = _rest_of(layer, x, _looked_up(query, keys, values, seen))
        hidden = stack.norm(x)[:, 0]
        first = self._first(net.codec_head(hidden).float())
        self._ended |= first == self._eos
        first = first.masked_fill(first == self._eos, 0)
        frame = torch.cat([first[:, None], self._rest(hidden, first)], 1)
        self._drawn.index_copy_(1, at[None], frame[:, None])
        self._length += ~self._ended
        self._previous.copy_(frame)
        self._position += 1
        self._step += 1

    def _first(self, logits: Tensor) -> Tensor:
        logits = logits.masked_fill(self._suppressed | (self._is_eos & (self._step < LEAST_TOKENS)), -torch.inf)
        return logits.argmax(-1)

    def _rest(self, hidden: Tensor, first: Tensor) -> Tensor:
        """Returns the other codes, greedily, as served."""
        predictor = self._net.code_predictor
        seen = torch.stack([hidden, self._net.model.codec_embedding(first)], 1)
        codes: list[Tensor] = []
        for book in range(predictor.books):
            state = self._talker.through(predictor.model, predictor.small_to_mtp_projection(seen))[:, -1]
            codes.append((state @ predictor.lm_head.weight[book].T).argmax(-1))
            embedded = F.embedding(codes[-1], predictor.model.codec_embedding.weight[book])
            seen = torch.cat([seen, embedded[:, None]], 1)
        return torch.stack(codes, 1)


def _heads(layer: DecoderLayer, x: Tensor, rotary: RotaryAngles) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of `x [B, T, hidden]`, each `[B, T, heads, D]`."""
    attention = layer.self_attn
    assert attention.q_norm is not None and attention.k_norm is not None  # noqa: PT018
    qkv = F.linear(normed(x, layer.input_layernorm), attention.qkv.weight)
    query, key, value = (part.unflatten(-1, (-1, attention.head_dim)) for part in qkv.split(attention.qkv.sizes, -1))
    return rotary.rotate(normed(query, attention.q_norm)), rotary.rotate(normed(key, attention.k_norm)), value


def _attended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of whole prompts: `[B, T, heads, D]`."""
    heads = (part.transpose(1, 2) for part in (query, key, value))
    return F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True).transpose(1, 2)


def _looked_up(query: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    """Attention of one position `[B, 1, heads, D]`; the heads that share keys count as positions of one head."""
    shared = query.unflatten(2, (keys.shape[2], -1))[:, 0]
    heads = (shared, keys.transpose(1, 2), values.transpose(1, 2))
    return F.scaled_dot_product_attention(*heads, attn_mask=seen[:, None, None]).flatten(1, 2)[:, None]


def _rest_of(layer: DecoderLayer, x: Tensor, attended: Tensor) -> Tensor:
    x = x + F.linear(attended.flatten(2), layer.self_attn.o_proj.weight)
    gate, up = F.linear(normed(x, layer.post_attention_layernorm), layer.mlp.gate_up.weight).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, layer.mlp.down_proj.weight)
