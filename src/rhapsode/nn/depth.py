"""A depth transformer: a stack of layers over the few tokens of one frame, with keys and values of that frame alone."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from rhapsode.nn.attention import FusedAttentionBackend
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.fixed_positions import FixedPositionStack
from rhapsode.nn.kernels.attention import attention, frame_attention
from rhapsode.nn.kernels.heads import ProjectedHeads
from rhapsode.nn.kernels.linear import takes_float8
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.quantised import Widened

WIDENED_ROWS = 256
"""With more rows, 8-bit layers are converted to a wider dtype once per frame (0.1 ms with Qwen3-TTS), not per pass."""


class FrameAttention(FusedAttentionBackend):
    """Attention over one frame's tokens, which arrive in order.

    The host knows how many tokens there are. So shapes depend on the batch alone, a single token needs no mask, and a
    frame never reads what the previous one wrote.
    """

    def __init__(
        self,
        config: DecoderConfig,
        batch: int,
        max_tokens: int,
        angles: RotaryAngles | None,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (config.layers, batch, config.kv_heads, max_tokens, config.head_dim)  # as the products want them
        self.keys = torch.empty(shape, dtype=dtype, device=device).unbind()
        self.values = torch.empty(shape, dtype=dtype, device=device).unbind()
        self._angles = angles
        self.start = self.stop = 0
        self.layers: Widened | None = None
        """A copy of 8-bit layers in a wider dtype, for this frame."""

    def take(self, tokens: int) -> RotaryAngles | None:
        """Moves on to the next `tokens` tokens, and returns their rotary angles."""
        self.start, self.stop = self.stop, self.stop + tokens
        if self._angles is None:
            return None
        cos, sin = self._angles
        return RotaryAngles(cos[:, self.start : self.stop], sin[:, self.start : self.stop])

    def attend_heads(self, layer: int, heads: ProjectedHeads) -> Tensor:
        attended = frame_attention(heads, self.keys[layer], self.values[layer], self.start)
        return super().attend_heads(layer, heads) if attended is None else attended

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self.keys[layer].transpose(1, 2), self.values[layer].transpose(1, 2)  # [B, max, kv_heads, D]
        keys[:, self.start : self.stop] = key
        values[:, self.start : self.stop] = value
        return attention(query, keys[:, : self.stop], values[:, : self.stop], self._mask(query))

    def _mask(self, query: Tensor) -> Tensor | None:
        if self.stop - self.start == 1:
            return None
        where = torch.arange(self.stop, device=query.device)
        return (where > where[self.start :, None]).expand(query.shape[0], -1, -1)  # [B, T, S]


class DepthStack(FixedPositionStack):
    """The layers of a depth transformer. Call `begin` for each frame, then `advance` for one or a few of its tokens."""

    def begin(self, batch: int, dtype: torch.dtype, device: torch.device) -> FrameAttention:
        frame = FrameAttention(self.config, batch, self.max_tokens, self.all_angles(dtype), dtype, device)
        if batch > WIDENED_ROWS and takes_float8(frame.keys[0]):
            frame.layers = Widened(self.layers, dtype)
        return frame

    def advance(self, x: Tensor, frame: FrameAttention) -> Tensor:
        """Returns the normed hidden states of the next tokens `x [B, T, hidden]`, which may be overwritten."""
        return self.norm(self.advance_unnormed(x, frame))

    def advance_unnormed(self, x: Tensor, frame: FrameAttention) -> Tensor:
        """Does what `advance` does without the final norm, for a head that fuses the norm."""
        with nullcontext() if frame.layers is None else frame.layers.used():
            return self.run_layers(x, frame.take(x.shape[1]), frame)
