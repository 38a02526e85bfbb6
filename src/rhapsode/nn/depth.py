"""A depth transformer: a stack of layers over the few tokens of one frame, with a memory that is fresh each frame."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.nn.attention import FusedMemory
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.heads import Heads
from rhapsode.nn.kernels.attention import attention, frame_attention
from rhapsode.nn.rope import Turn
from rhapsode.nn.short import ShortStack


class FrameMemory(FusedMemory):
    """Keys and values of one frame's tokens, added in order.

    How many there are is known to the host: shapes depend on the batch alone, one token looks back without a mask, and
    what one frame leaves behind is never seen by the next.
    """

    def __init__(
        self,
        config: DecoderConfig,
        batch: int,
        most: int,
        turns: Turn | None,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (config.layers, batch, config.kv_heads, most, config.head_dim)  # as the products want them
        self._keys = torch.empty(shape, dtype=dtype, device=device).unbind()
        self._values = torch.empty(shape, dtype=dtype, device=device).unbind()
        self._turns = turns
        self.start = self.stop = 0

    def take(self, tokens: int) -> Turn | None:
        """So many tokens come next: what their positions mean."""
        self.start, self.stop = self.stop, self.stop + tokens
        if self._turns is None:
            return None
        return Turn(self._turns.cos[:, self.start : self.stop], self._turns.sin[:, self.start : self.stop])

    def attend_heads(self, layer: int, heads: Heads) -> Tensor:
        seen = frame_attention(heads, self._keys[layer], self._values[layer], self.start)
        return super().attend_heads(layer, heads) if seen is None else seen

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self._keys[layer].transpose(1, 2), self._values[layer].transpose(1, 2)  # [B, most, kv_heads, D]
        keys[:, self.start : self.stop] = key
        values[:, self.start : self.stop] = value
        return attention(query, keys[:, : self.stop], values[:, : self.stop], self._hidden(query))

    def _hidden(self, query: Tensor) -> Tensor | None:
        if self.stop - self.start == 1:
            return None
        where = torch.arange(self.stop, device=query.device)
        return (where > where[self.start :, None]).expand(query.shape[0], -1, -1)  # [B, T, S]


class DepthStack(ShortStack):
    """`begin` a frame, then `advance` by its tokens, one or a few at a time."""

    def begin(self, batch: int, dtype: torch.dtype, device: torch.device) -> FrameMemory:
        return FrameMemory(self.config, batch, self.most, self.turns(dtype), dtype, device)

    def advance(self, x: Tensor, memory: FrameMemory) -> Tensor:
        """The normed hidden states of the next tokens `x [B, T, hidden]`, which is given up."""
        return self.norm(self.advance_unnormed(x, memory))

    def advance_unnormed(self, x: Tensor, memory: FrameMemory) -> Tensor:
        """The same for a head that norms its input itself."""
        return self.run(x, memory.take(x.shape[1]), memory)
