"""A stack of layers over a few tokens whose positions are always the same."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.derived import Derived
from rhapsode.nn.rope import Turn


class ShortStack(DecoderStack, Derived):
    """At most `most` tokens at positions 0, 1, 2 ...: what they mean is computed once."""

    _cos: Tensor | None
    _sin: Tensor

    def __init__(self, config: DecoderConfig, most: int) -> None:
        super().__init__(config)
        self.most = most
        turns = self.turn(torch.arange(most, device="cpu")[None], torch.float32)
        self.register_buffer("_cos", turns.cos if turns else None, persistent=False)
        self.register_buffer("_sin", turns.sin if turns else None, persistent=False)

    def derive(self) -> None:
        """Keep what positions mean in the weights' own type, so that no pass has to convert it."""
        if self._cos is not None:
            dtype = next(self.parameters()).dtype
            self._cos, self._sin = self._cos.to(dtype), self._sin.to(dtype)

    def turns(self, dtype: torch.dtype) -> Turn | None:
        """Of all positions, each [1, most, 1, head_dim]."""
        return None if self._cos is None else Turn(self._cos.to(dtype), self._sin.to(dtype))
