"""A transformer for codecs: causal attention over a window of the past, whose keys and values a slot carries."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.state import State, buffer
from rhapsode.device.trace import decides
from rhapsode.nn.attention import AttentionBackend
from rhapsode.nn.decoder import DecoderConfig, DecoderLayer
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.rope import Rope
from rhapsode.nn.streaming import Streaming


def alibi_slopes(heads: int) -> Tensor:
    """Returns a geometric series of ALiBi slopes that starts at 1, `[heads]`.

    For `n` heads, each slope is the one before it times `2 ** (-8 / n)`. If the number of heads is not a power of two,
    the result is the series of the power below it, and then every second slope of the power above.
    """
    power = 1 << (heads.bit_length() - 1)
    between = _series(2 * power)[::2]
    return torch.tensor(_series(power) + between[: heads - power], device="cpu")


def _series(heads: int) -> list[float]:
    return [2.0 ** (-8 * i / heads) for i in range(heads)]


class WindowState(State):
    """A ring of the last `window` positions. All layers share one buffer, so a launch reads and writes it once."""

    def __init__(self, slots: int, config: DecoderConfig, window: int, like: Tensor) -> None:
        shape = (window, config.layers, 2, config.kv_heads, config.head_dim)
        self.ring = buffer(slots, *shape, dtype=like.dtype, device=like.device)  # position p is at p % window
        self.position = buffer(slots, dtype=torch.int64, device=like.device)  # positions stored so far


class WindowAttention:
    """Attention of slots that continue for `length` positions: over their rings and over the new positions.

    New keys and values are joined to a copy of the ring, because the first queries may still attend to the oldest
    entries; `store` puts them into the ring.
    """

    def __init__(self, state: WindowState, slots: Tensor, length: int, slopes: Tensor | None = None) -> None:
        window = state.ring.shape[1]
        position = state.position.index_select(0, slots)[:, None]  # [B, 1]
        self.positions = position + torch.arange(length, device=slots.device)  # [B, T]
        # [B, places, layers, 2, kv_heads, D]. Only a CPU knows how many places are filled; a GPU takes all of them.
        on_cpu = slots.device.type == "cpu"
        self._past = _rings(state.ring, slots, position) if on_cpu else state.ring.index_select(0, slots)
        keys = _keys_in(self._past, position, self.positions, window)
        self._bias = _bias(self.positions, keys, window, state.ring.dtype, slopes)
        self._new: list[Tensor] = []  # per layer, [B, T, 2, kv_heads, D]
        self._state, self._slots = state, slots

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        new = torch.stack([key, value], dim=2)
        self._new.append(new)
        keys, values = torch.cat([self._past[:, :, layer], new], dim=1).unbind(2)
        return _attend(query, keys, values, self._bias)

    def store(self) -> None:
        """Writes the new keys and values of all layers to the ring, and advances the positions."""
        ring, window = self._state.ring, self._state.ring.shape[1]
        new = torch.stack(self._new, dim=2)[:, -window:]
        place = self._slots[:, None] * window + self.positions[:, -window:] % window
        ring.view(-1, *ring.shape[2:]).index_copy_(0, place.flatten(), new.flatten(0, 1))
        self._state.position.index_copy_(0, self._slots, self.positions[:, -1] + 1)


class OnePassAttention:
    """Causal attention of one pass over a whole sequence, without state; `window` may be `None`."""

    def __init__(self, length: int, window: int | None, like: Tensor, slopes: Tensor | None = None) -> None:
        self.positions = torch.arange(length, device=like.device)[None]
        self._bias = _bias(self.positions, self.positions, window or length, like.dtype, slopes)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return _attend(query, key, value, self._bias)


@decides
def _rings(ring: Tensor, slots: Tensor, position: Tensor) -> Tensor:
    """Returns the rings of these slots; of a single slot, without a copy, the places that are filled.

    With several slots the length is always that of the whole ring: the order of sums depends on the length, and a row's
    result must not depend on the other rows.
    """
    if slots.shape[0] == 1:
        return ring.narrow(0, int(slots[0]), 1).narrow(1, 0, min(int(position[0, 0]), ring.shape[1]))
    return ring.index_select(0, slots)


@decides
def _keys_in(past: Tensor, position: Tensor, positions: Tensor, window: int) -> Tensor:
    """Returns the positions of the ring's places, then the new positions, [B, S]; a negative one: an empty place."""
    last, place = position - 1, torch.arange(past.shape[1], device=past.device)
    return torch.cat([last - (last - place) % window, positions], dim=1)


def _bias(queries: Tensor, keys: Tensor, window: int, dtype: torch.dtype, slopes: Tensor | None) -> Tensor:
    """Returns what is added to scores, [B, 1, T, S]. With a mask instead, each layer would convert the mask to this.

    A query attends to its own key and to `window - 1` before it, from position 0 on. With `slopes [heads]` the bias
    falls with the distance: [B, heads, T, S].
    """
    age = queries[:, :, None] - keys[:, None]
    visible = (age >= 0) & (age < window) & (keys >= 0)[:, None]
    bias = torch.zeros_like(age, dtype=dtype)[:, None]
    if slopes is not None:
        bias = slopes[:, None, None] * -age[:, None].to(dtype)
    return bias.masked_fill(~visible[:, None], float("-inf"))


def _attend(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """Attention of `[B, T, heads, D]` over `[B, S, kv_heads, D]`, in the model's own dtype, as upstream's codecs do."""
    query, keys, values = query.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
    grouped = query.shape[1] != keys.shape[1]
    return F.scaled_dot_product_attention(query, keys, values, bias, enable_gqa=grouped).transpose(1, 2)


class LayerScale(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))


class WindowedLayer(DecoderLayer):
    """A decoder layer that scales the outputs of attention and feed-forward network channel by channel."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.self_attn_layer_scale = LayerScale(config.hidden)
        self.mlp_layer_scale = LayerScale(config.hidden)

    def forward(self, x: Tensor, layer: int, rotary: RotaryAngles | None, backend: AttentionBackend) -> Tensor:
        attended = self.self_attn(self.input_layernorm(x), layer, rotary, backend)
        x = torch.addcmul(x, attended, self.self_attn_layer_scale.scale)
        return torch.addcmul(x, self.mlp(self.post_attention_layernorm(x)), self.mlp_layer_scale.scale)


class WindowedTransformer(Streaming, Derived):
    """Maps `[B, T, hidden]` to the same shape; positions count from the start of the stream. It streams with a window.

    `slopes` is ALiBi's bias per position of distance, one per head, as `alibi_slopes` returns it.
    """

    slopes: Tensor | None

    def __init__(self, config: DecoderConfig, window: int | None, slopes: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("slopes", slopes, persistent=False)
        self.config = config
        self.window = window
        self.layers = nn.ModuleList(WindowedLayer(config) for _ in range(config.layers))
        self.rope = Rope(config.rope) if config.rope else None

    def derive(self) -> None:
        """Converts the slopes to the weights' dtype: scores and what is added to them must agree."""
        if self.slopes is not None:
            self.slopes = self.slopes.to(next(self.parameters()).dtype)

    def state(self, slots: int) -> WindowState:
        if self.window is None:
            raise ValueError("attention without a window does not stream")
        return WindowState(slots, self.config, self.window, next(self.parameters()))

    def forward(self, x: Tensor, slots: Tensor | None = None, state: WindowState | None = None) -> Tensor:
        if slots is None or state is None:
            return self._run(x, OnePassAttention(x.shape[1], self.window, x, self.slopes))
        attention = WindowAttention(state, slots, x.shape[1], self.slopes)
        x = self._run(x, attention)
        attention.store()
        return x

    def _run(self, x: Tensor, backend: WindowAttention | OnePassAttention) -> Tensor:
        rotary = self.rope(backend.positions, x.dtype) if self.rope else None
        for i, layer in enumerate(self.layers):
            x = layer(x, i, rotary, backend)
        return x
