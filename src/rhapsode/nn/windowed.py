"""A transformer for codecs: causal attention over a window of the past, whose keys and values a slot carries."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.state import State, buffer
from rhapsode.nn.attention import Memory
from rhapsode.nn.decoder import DecoderConfig, DecoderLayer
from rhapsode.nn.rope import Rope, Turn
from rhapsode.nn.streaming import Streaming


class WindowState(State):
    """A ring of the last `window` positions, of all layers together so that a launch reads and writes it once."""

    def __init__(self, slots: int, config: DecoderConfig, window: int, like: Tensor) -> None:
        shape = (window, config.layers, 2, config.kv_heads, config.head_dim)
        self.ring = buffer(slots, *shape, dtype=like.dtype, device=like.device)  # position p is at p % window
        self.position = buffer(slots, dtype=torch.int64, device=like.device)  # positions seen so far


class Ring:
    """The memory of slots that go on for `length` positions: what their rings hold, and what is new.

    New keys and values are joined to a copy of the ring, for the oldest of them may still be seen by the first
    queries; `keep` puts them into it.
    """

    def __init__(self, state: WindowState, slots: Tensor, length: int) -> None:
        window = state.ring.shape[1]
        position = state.position.index_select(0, slots)[:, None]  # [B, 1]
        last, place = position - 1, torch.arange(window, device=slots.device)
        held = last - (last - place) % window  # [B, window], the position in each place; negative: none yet
        self.positions = position + torch.arange(length, device=slots.device)  # [B, T]
        self._mask = _seen(self.positions, torch.cat([held, self.positions], dim=1), window)
        self._past = state.ring.index_select(0, slots)  # [B, window, layers, 2, kv_heads, D]
        self._new: list[Tensor] = []  # per layer, [B, T, 2, kv_heads, D]
        self._state, self._slots = state, slots

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        new = torch.stack([key, value], dim=2)
        self._new.append(new)
        keys, values = torch.cat([self._past[:, :, layer], new], dim=1).unbind(2)
        return _attend(query, keys, values, self._mask)

    def keep(self) -> None:
        ring, window = self._state.ring, self._state.ring.shape[1]
        new = torch.stack(self._new, dim=2)[:, -window:]
        place = self._slots[:, None] * window + self.positions[:, -window:] % window
        ring.view(-1, *ring.shape[2:]).index_copy_(0, place.flatten(), new.flatten(0, 1))
        self._state.position.index_copy_(0, self._slots, self.positions[:, -1] + 1)


class OnePass:
    """The memory of one pass over everything: nothing before it, nothing kept. No window: all the past is seen."""

    def __init__(self, length: int, window: int | None, device: torch.device) -> None:
        self.positions = torch.arange(length, device=device)[None]
        self._mask = _seen(self.positions, self.positions, window or length)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return _attend(query, key, value, self._mask)


def _seen(queries: Tensor, keys: Tensor, window: int) -> Tensor:
    """Which keys each query sees, [B, 1, T, S]: itself and `window - 1` before it, from position 0 on."""
    age = queries[:, :, None] - keys[:, None]
    return ((age >= 0) & (age < window) & (keys >= 0)[:, None])[:, None]


def _attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """In the model's own type throughout, as upstream's codecs do: `[B, T, heads, D]` over `[B, S, kv_heads, D]`."""
    query, keys, values = query.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
    grouped = query.shape[1] != keys.shape[1]
    return F.scaled_dot_product_attention(query, keys, values, mask, enable_gqa=grouped).transpose(1, 2)


class LayerScale(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))


class WindowedLayer(DecoderLayer):
    """A decoder layer; what attention and feed-forward add is scaled channel by channel."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.self_attn_layer_scale = LayerScale(config.hidden)
        self.mlp_layer_scale = LayerScale(config.hidden)

    def forward(self, x: Tensor, layer: int, turn: Turn | None, memory: Memory) -> Tensor:
        heard = self.self_attn(self.input_layernorm(x), layer, turn, memory)
        x = torch.addcmul(x, heard, self.self_attn_layer_scale.scale)
        return torch.addcmul(x, self.mlp(self.post_attention_layernorm(x)), self.mlp_layer_scale.scale)


class WindowedTransformer(Streaming):
    """`[B, T, hidden]` to the same; positions count from the start of the request. It streams if it has a window."""

    def __init__(self, config: DecoderConfig, window: int | None) -> None:
        super().__init__()
        self.config = config
        self.window = window
        self.layers = nn.ModuleList(WindowedLayer(config) for _ in range(config.layers))
        self.rope = Rope(config.rope) if config.rope else None

    def state(self, slots: int) -> WindowState:
        if self.window is None:
            raise ValueError("attention without a window does not stream")
        return WindowState(slots, self.config, self.window, next(self.parameters()))

    def forward(self, x: Tensor, slots: Tensor | None = None, state: WindowState | None = None) -> Tensor:
        if slots is None or state is None:
            return self._run(x, OnePass(x.shape[1], self.window, x.device))
        ring = Ring(state, slots, x.shape[1])
        x = self._run(x, ring)
        ring.keep()
        return x

    def _run(self, x: Tensor, memory: Ring | OnePass) -> Tensor:
        turn = self.rope(memory.positions, x.dtype) if self.rope else None
        for i, layer in enumerate(self.layers):
            x = layer(x, i, turn, memory)
        return x
