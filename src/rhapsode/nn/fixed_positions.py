"""A stack of layers over a few tokens whose positions are always 0, 1, 2 ..."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.rotary import RotaryAngles


class FixedPositionStack(DecoderStack, Derived):
    """Decoder layers for at most `max_tokens` tokens, from position 0 on. Their rotary angles are computed once."""

    _cos: Tensor | None
    _sin: Tensor

    def __init__(self, config: DecoderConfig, max_tokens: int) -> None:
        super().__init__(config)
        self.max_tokens = max_tokens
        angles = self.rotary(torch.arange(max_tokens, device="cpu")[None], torch.float32)
        self.register_buffer("_cos", angles.cos if angles else None, persistent=False)
        self.register_buffer("_sin", angles.sin if angles else None, persistent=False)

    def derive(self) -> None:
        """Converts the angles to the weights' dtype, so that no pass has to."""
        if self._cos is not None:
            dtype = next(self.parameters()).dtype
            self._cos, self._sin = self._cos.to(dtype), self._sin.to(dtype)

    def all_angles(self, dtype: torch.dtype) -> RotaryAngles | None:
        """Returns the angles of all positions, each [1, max_tokens, 1, head_dim]."""
        return None if self._cos is None else RotaryAngles(self._cos.to(dtype), self._sin.to(dtype))
